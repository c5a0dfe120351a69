//! Bytes of like significance side by side.

/// Writes byte 0 of every element, then byte 1 of every element, and so on. What is left over of a last element
/// follows as it is.
pub(super) fn shuffle(bytes: &[u8], width: usize, out: &mut [u8]) {
    match width {
        2 => split::<2>(bytes, out),
        4 => split::<4>(bytes, out),
        8 => split::<8>(bytes, out),
        _ => out.copy_from_slice(bytes),
    }
}

/// The inverse of [`shuffle`].
pub(super) fn unshuffle(bytes: &[u8], width: usize, out: &mut [u8]) {
    match width {
        2 => join::<2>(bytes, out),
        4 => join::<4>(bytes, out),
        8 => join::<8>(bytes, out),
        _ => out.copy_from_slice(bytes),
    }
}

/// A width known to the compiler has these loops run in vector registers.
fn split<const WIDTH: usize>(bytes: &[u8], out: &mut [u8]) {
    let (elements, rest) = bytes.as_chunks::<WIDTH>();
    let (lanes, last) = out.split_at_mut(elements.len() * WIDTH);
    for lane in 0..WIDTH {
        let target = &mut lanes[lane * elements.len()..(lane + 1) * elements.len()];
        for (to, element) in target.iter_mut().zip(elements) {
            *to = element[lane];
        }
    }
    last.copy_from_slice(rest);
}

fn join<const WIDTH: usize>(bytes: &[u8], out: &mut [u8]) {
    let (elements, last) = out.as_chunks_mut::<WIDTH>();
    let (lanes, rest) = bytes.split_at(elements.len() * WIDTH);
    for lane in 0..WIDTH {
        let source = &lanes[lane * elements.len()..(lane + 1) * elements.len()];
        for (element, from) in elements.iter_mut().zip(source) {
            element[lane] = *from;
        }
    }
    last.copy_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_put_side_by_side() {
        let bytes: Vec<u8> = (0..19).collect();
        for (width, expected) in [
            (1, bytes.clone()),
            (2, vec![0, 2, 4, 6, 8, 10, 12, 14, 16, 1, 3, 5, 7, 9, 11, 13, 15, 17, 18]),
            (4, vec![0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 16, 17, 18]),
            (8, vec![0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 16, 17, 18]),
        ] {
            let mut out = vec![0; 19];
            shuffle(&bytes, width, &mut out);
            assert_eq!(out, expected);
            let mut back = vec![0; 19];
            unshuffle(&out, width, &mut back);
            assert_eq!(back, bytes);
        }
    }
}
