//! One vector type per instruction set behind one trait, chosen at run time.
//!
//! Kernels are written once, generic over [`Simd`], inside `dispatch!`, which compiles the body once for each
//! instruction set and picks one by the value of an [`Isa`]. A value of a set's type exists only if the CPU has the
//! set, so its methods are sound to call; there is no global state, and a test passes whichever set it wants.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use portable::Portable;

use crate::gemm::micro::Tile;

/// The instruction set that a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(pub(crate) Set);

/// What an [`Isa`] holds: a proof that the CPU has the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// 256-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// 128-bit vectors with fused multiply-add.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    /// Arrays that any compiler target understands.
    Portable(Portable),
}

impl Isa {
    /// The widest instruction set of this CPU.
    pub fn detect() -> Self {
        *Self::available().first().expect("the portable set is always there")
    }

    /// Every instruction set that this CPU can run, widest first; the last is always [`Isa::portable`].
    pub fn available() -> Vec<Self> {
        let mut sets = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(Avx512::detect().map(|s| Self(Set::Avx512(s))));
            sets.extend(Avx2::detect().map(|s| Self(Set::Avx2(s))));
        }
        #[cfg(target_arch = "aarch64")]
        sets.extend(Neon::detect().map(|s| Self(Set::Neon(s))));
        sets.push(Self::portable());
        sets
    }

    /// The set that needs no special instructions.
    pub const fn portable() -> Self {
        Self(Set::Portable(Portable))
    }

    /// Its name, as a trace or a report prints it.
    pub const fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2(_) => "avx2+fma",
            #[cfg(target_arch = "aarch64")]
            Set::Neon(_) => "neon",
            Set::Portable(_) => "portable",
        }
    }

    /// `f32` lanes of a vector.
    pub const fn lanes(self) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512(_) => <Avx512 as Simd>::LANES,
            #[cfg(target_arch = "x86_64")]
            Set::Avx2(_) => <Avx2 as Simd>::LANES,
            #[cfg(target_arch = "aarch64")]
            Set::Neon(_) => <Neon as Simd>::LANES,
            Set::Portable(_) => <Portable as Simd>::LANES,
        }
    }

    /// Rows of a matrix product's tile on this set.
    pub(crate) const fn tile_rows(self) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512(_) => <Avx512 as Tile>::MR,
            #[cfg(target_arch = "x86_64")]
            Set::Avx2(_) => <Avx2 as Tile>::MR,
            #[cfg(target_arch = "aarch64")]
            Set::Neon(_) => <Neon as Tile>::MR,
            Set::Portable(_) => <Portable as Tile>::MR,
        }
    }

    /// Columns of a packed panel of a matrix product on this set.
    pub(crate) const fn panel_width(self) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512(_) => <Avx512 as Tile>::NR,
            #[cfg(target_arch = "x86_64")]
            Set::Avx2(_) => <Avx2 as Tile>::NR,
            #[cfg(target_arch = "aarch64")]
            Set::Neon(_) => <Neon as Tile>::NR,
            Set::Portable(_) => <Portable as Tile>::NR,
        }
    }
}

/// The most lanes of any set: the size of a stack buffer that holds one vector.
pub(crate) const MAX_LANES: usize = 16;

/// Side of the square that [`Simd::transpose`] turns.
pub(crate) const SQUARE: usize = 8;

/// A vector of `f32` lanes.
///
/// `fma(a, b, c)` is `a * b + c`, fused where the set has it.
pub(crate) trait Simd: Tile + Copy + Send + Sync + 'static {
    type V: Copy;
    const LANES: usize;

    fn splat(self, x: f32) -> Self::V;
    /// # Safety
    /// `LANES` floats must be readable at `p`.
    unsafe fn load_ptr(self, p: *const f32) -> Self::V;
    /// # Safety
    /// `LANES` floats must be writable at `p`.
    unsafe fn store_ptr(self, p: *mut f32, v: Self::V);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Where either is not a number, sets differ: x86-64 and the portable set then give `b`, NEON gives no number.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The larger; no number where either is none.
    fn largest(self, a: Self::V, b: Self::V) -> Self::V;
    /// As [`Simd::max`].
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;
    /// To the nearest integer, ties to even.
    fn round(self, a: Self::V) -> Self::V;
    /// `2^n` of lanes that hold integers in `-126..=127`.
    fn pow2(self, n: Self::V) -> Self::V;
    /// `a 2^n` of lanes of `n` that hold integers in `-126..=127`.
    #[inline(always)]
    fn scale(self, a: Self::V, n: Self::V) -> Self::V {
        self.mul(a, self.pow2(n))
    }
    /// `1 / a` of positive lanes that are neither tiny nor huge, to the last place or the one before it.
    #[inline(always)]
    fn reciprocal(self, a: Self::V) -> Self::V {
        self.div(self.splat(1.0), a)
    }
    /// In each lane `a > b ? x : y`.
    fn select_gt(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;

    /// Asks the first-level cache for the line at `p`, where the set can; any address will do.
    #[inline(always)]
    fn prefetch(self, _p: *const f32) {}

    /// Asks the second-level cache for the line at `p`, where the set can: for what is not needed at once, and would drive out of
    /// the first what is.
    #[inline(always)]
    fn prefetch_far(self, _p: *const f32) {}

    /// Stores past the caches, where the set can, for memory that is written in whole lines and not read soon: it is neither
    /// fetched first nor does it drive out what is needed. Other threads see it after [`fence`].
    ///
    /// # Safety
    /// As [`Simd::store_ptr`], and `p` must be aligned to the vector.
    #[inline(always)]
    unsafe fn stream_ptr(self, p: *mut f32, v: Self::V) {
        // SAFETY: the caller's promise.
        unsafe { self.store_ptr(p, v) }
    }

    /// Transposes a square of [`SQUARE`] rows: row `i` at `from + i from_row` becomes column `i` of rows `to_row` apart.
    ///
    /// # Safety
    /// All rows must be readable and writable, and not overlap.
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
        for i in 0..SQUARE {
            for j in 0..SQUARE {
                // SAFETY: inside the squares.
                unsafe { *to.add(j * to_row + i) = *from.add(i * from_row + j) };
            }
        }
    }

    #[inline(always)]
    fn load(self, src: &[f32]) -> Self::V {
        assert!(src.len() >= Self::LANES);
        // SAFETY: the slice holds at least `LANES` floats.
        unsafe { self.load_ptr(src.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, dst: &mut [f32], v: Self::V) {
        assert!(dst.len() >= Self::LANES);
        // SAFETY: the slice holds at least `LANES` floats.
        unsafe { self.store_ptr(dst.as_mut_ptr(), v) }
    }

    /// The first `src.len() <= LANES` lanes from `src`, the others `fill`.
    #[inline(always)]
    fn load_part(self, src: &[f32], fill: f32) -> Self::V {
        let mut lanes = [fill; MAX_LANES];
        lanes[..src.len()].copy_from_slice(src);
        self.load(&lanes)
    }

    /// Writes the first `dst.len() <= LANES` lanes.
    #[inline(always)]
    fn store_part(self, dst: &mut [f32], v: Self::V) {
        let mut lanes = [0.0; MAX_LANES];
        self.store(&mut lanes, v);
        let n = dst.len();
        dst.copy_from_slice(&lanes[..n]);
    }

    #[inline(always)]
    fn zero(self) -> Self::V {
        self.splat(0.0)
    }

    #[inline(always)]
    fn abs(self, a: Self::V) -> Self::V {
        self.max(a, self.sub(self.zero(), a))
    }

    /// Sum of the lanes, by halves: lane `i` meets lane `i + LANES / 2` first.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        self.fold(v, |a, b| a + b)
    }

    /// Largest lane. As in [`Simd::max`], what is not a number may go unseen.
    #[inline(always)]
    fn top(self, v: Self::V) -> f32 {
        // Not `f32::max`, which looks for what is not a number each time.
        self.fold(v, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn fold(self, v: Self::V, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut lanes = [0.0; MAX_LANES];
        self.store(&mut lanes, v);
        let mut half = Self::LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = f(lanes[i], lanes[i + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

/// Orders what was [streamed](Simd::stream_ptr) before every later store: to be called when a task ends.
#[inline]
pub(crate) fn fence() {
    // Where nothing is streamed past the caches, stores are ordered by whatever tells another thread of them.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every CPU of the architecture has the instruction, which does nothing but wait.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}

/// Defines a function whose body is compiled once for each instruction set.
///
/// `fn name(s: Isa; args) -> R { body }` becomes `fn name(isa: Isa, args) -> R`; in the body `s` is the vector set.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($s:ident: Isa $(, $arg:ident: $ty:ty)* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name(isa: $crate::simd::Isa $(, $arg: $ty)*) $(-> $ret)? {
            #[allow(unused_imports)]
            use $crate::simd::{Simd, Set};
            #[inline(always)]
            fn body<S: Simd>($s: S $(, $arg: $ty)*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2(s: $crate::simd::Avx2 $(, $arg: $ty)*) $(-> $ret)? {
                body(s $(, $arg)*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx2,fma")]
            fn avx512(s: $crate::simd::Avx512 $(, $arg: $ty)*) $(-> $ret)? {
                body(s $(, $arg)*)
            }
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon")]
            fn neon(s: $crate::simd::Neon $(, $arg: $ty)*) $(-> $ret)? {
                body(s $(, $arg)*)
            }
            match isa.0 {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a value of the set's type exists only if the CPU has its instructions.
                Set::Avx512(s) => unsafe { avx512(s $(, $arg)*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Set::Avx2(s) => unsafe { avx2(s $(, $arg)*) },
                #[cfg(target_arch = "aarch64")]
                // SAFETY: as above.
                Set::Neon(s) => unsafe { neon(s $(, $arg)*) },
                Set::Portable(s) => body(s $(, $arg)*),
            }
        }
    };
}
pub(crate) use dispatch;
