//! Bytes of like significance side by side.

/// Writes byte 0 of every element, then byte 1 of every element, and so on. What is left over of a last element
/// follows as it is.
pub(super) fn shuffle(bytes: &[u8], width: usize, out: &mut [u8]) {
    let count = bytes.len() / width;
    let (elements, rest) = bytes.split_at(count * width);
    for lane in 0..width {
        let target = &mut out[lane * count..(lane + 1) * count];
        for (to, element) in target.iter_mut().zip(elements.chunks_exact(width)) {
            *to = element[lane];
        }
    }
    out[count * width..].copy_from_slice(rest);
}

/// The inverse of [`shuffle`].
pub(super) fn unshuffle(bytes: &[u8], width: usize, out: &mut [u8]) {
    let count = bytes.len() / width;
    let (lanes, rest) = bytes.split_at(count * width);
    for lane in 0..width {
        let source = &lanes[lane * count..(lane + 1) * count];
        for (element, from) in out.chunks_exact_mut(width).zip(source) {
            element[lane] = *from;
        }
    }
    out[count * width..].copy_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_put_side_by_side() {
        let mut out = [0; 7];
        shuffle(&[1, 2, 3, 4, 5, 6, 7], 3, &mut out);
        assert_eq!(out, [1, 4, 2, 5, 3, 6, 7]);
        let mut back = [0; 7];
        unshuffle(&out, 3, &mut back);
        assert_eq!(back, [1, 2, 3, 4, 5, 6, 7]);
    }
}
