//! Converts the sums of tiles to outputs.

use super::bytes::{Outputs, SIGN};
use super::dots::{Sums, TILE};
use super::finish::Finish;
use super::interleaved::Conversion;
use super::reals::Reals;
use super::sizes::PANEL;
use super::weights::Factors;
use std::ops::Range;

/// Writes outputs, which different threads do at different places.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    finish: Finish<'a>,
    factors: &'a Factors,
    /// The first output: a byte, or a float.
    first: *mut u8,
    has_bytes: bool,
    /// What makes the outputs unsigned by an exclusive or.
    flip: u8,
    len: usize,
    /// The bounds of the results, counted in steps if they are quantised.
    bounds: [f32; 2],
}

// SAFETY: the pointer is to a slice that is borrowed mutably, and each output is written by one thread.
unsafe impl Sync for Writer<'_> {}

/// The most numbers that wait for a function. They stay in a first-level cache.
const MOST_WAITING: usize = 2048;

/// The numbers of some tiles, which wait for a function: a call for few numbers takes longer than computing them.
#[derive(Default)]
pub(super) struct Waiting {
    /// The numbers of one tile after the other, without gaps, and room for another panel. Empty until it is needed.
    numbers: Vec<f32>,
    /// How many numbers wait.
    count: usize,
    /// Where the outputs of the tiles belong.
    sites: Vec<Site>,
}

impl Waiting {
    pub(super) const NONE: Self = Self { numbers: Vec::new(), count: 0, sites: Vec::new() };
}

/// Where the outputs of a tile belong, and which factors they have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    /// The position of the first output.
    pub(super) output: usize,
    /// The distance between the rows of outputs.
    pub(super) stride: usize,
    /// The number of rows.
    pub(super) rows: usize,
    /// The number of columns.
    pub(super) columns: usize,
    /// The position of the first column's factors.
    pub(super) factors: usize,
}

impl<'a> Writer<'a> {
    /// A writer of these outputs.
    ///
    /// # Panics
    /// Panics if there are fewer values to add than outputs, or if the range is not one of the outputs' type; callers check
    /// this beforehand.
    pub(super) fn new(finish: &Finish<'a>, factors: &'a Factors, outputs: Outputs<'a>) -> Self {
        let len = outputs.len();
        let values = finish.added.map(|added| added.values.data.len());
        assert!(values.is_none_or(|count| count >= len), "too few values to add to the outputs");
        let (first, least) = match outputs {
            Outputs::I8(values) => (values.as_mut_ptr().cast(), Some(i32::from(i8::MIN))),
            Outputs::U8(values) => (values.as_mut_ptr(), Some(0)),
            Outputs::F32(values) => (values.as_mut_ptr().cast(), None),
        };
        let flip = if least == Some(0) { 0 } else { SIGN };
        let mut bounds = finish.bounds;
        if let Some(least) = least {
            let ([low, high], zero) = (finish.range, finish.zero_point);
            let is_right = [low, high, zero].iter().all(|end| (least..=least + 255).contains(end));
            assert!(is_right && low <= high, "the range must be one of the outputs' type");
            // It makes no difference whether numbers are clamped before or after they are counted in steps.
            let [low, high] = [low - zero, high - zero].map(|steps| steps as f32);
            bounds = bounds.map(|bound| (bound * finish.inverse).clamp(low, high));
        }
        Self { finish: *finish, factors, first, has_bytes: least.is_some(), flip, len, bounds }
    }

    /// Converts the sums of a tile to outputs. If there is a function, they may have to wait for other tiles, until
    /// [`Writer::write_waiting`] is called.
    ///
    /// # Safety
    /// Nothing else may use these outputs, and only tiles of this writer may be waiting. The processor must have the
    /// instructions of `R`, which must be enabled where the function is inlined.
    ///
    /// # Panics
    /// Panics if the site is not within the outputs, or there are too few factors.
    #[inline(always)]
    pub(super) unsafe fn write<R: Reals>(&self, sums: &Sums, site: Site, waiting: &mut Waiting) {
        let Some(last) = site.rows.checked_sub(1) else { return };
        let end = site.output + last * site.stride + site.columns;
        let is_tile = site.rows <= TILE[0] && site.columns <= TILE[1];
        assert!(is_tile && end <= self.len, "the tile must be within the outputs");
        assert!(site.factors + site.columns <= self.factors.len(), "too few factors");
        let sums = &sums[..site.rows];
        // SAFETY: the outputs and factors are there, as checked above; both factors and sums have room for whole panels.
        // The rest is the caller's promise.
        unsafe {
            if self.finish.function.is_some() {
                match self.finish.added.is_some() {
                    false => self.add_waiting::<R, false>(sums, site, waiting),
                    true => self.add_waiting::<R, true>(sums, site, waiting),
                }
                if waiting.count + TILE[0] * TILE[1] > MOST_WAITING {
                    self.write_waiting::<R>(waiting);
                }
                return;
            }
            match (self.finish.added.is_some(), self.has_bytes) {
                (false, true) => self.rows::<R, false, true>(sums, site),
                (true, true) => self.rows::<R, true, true>(sums, site),
                (false, false) => self.rows::<R, false, false>(sums, site),
                (true, false) => self.rows::<R, true, false>(sums, site),
            }
        }
    }

    /// How sums are converted to bytes, if nothing else happens to them.
    pub(super) fn conversion(&self) -> Option<Conversion> {
        if !self.has_bytes || self.finish.added.is_some() || self.finish.function.is_some() {
            return None;
        }
        let zero = self.finish.zero_point + i32::from(self.flip);
        let bounds = self.bounds.map(|bound| (bound.round_ties_even() as i32 + zero).clamp(0, 255) as u8);
        Some(Conversion {
            inverse: self.finish.inverse,
            steps: self.bounds,
            has_offsets: self.factors.has_offsets(),
            zero: zero as i16,
            bounds,
            flip: self.flip,
        })
    }

    /// Where some outputs are stored, which are bytes.
    ///
    /// # Panics
    /// Panics if they don't exist.
    pub(super) fn bytes(&self, outputs: Range<usize>) -> *mut u8 {
        assert!(self.has_bytes && outputs.end <= self.len, "the outputs must exist");
        self.first.wrapping_add(outputs.start)
    }

    /// Applies the function to the numbers that wait for it, and writes the outputs.
    ///
    /// # Safety
    /// As [`Writer::write`].
    #[inline(always)]
    pub(super) unsafe fn write_waiting<R: Reals>(&self, waiting: &mut Waiting) {
        let Waiting { numbers, count, sites } = waiting;
        let Some(function) = self.finish.function.filter(|_| !sites.is_empty()) else { return };
        function(&mut numbers[..*count]);
        // SAFETY: the caller's promise; sites were checked before their tiles were added.
        unsafe {
            match self.has_bytes {
                true => self.store_waiting::<R, true>(numbers, sites),
                false => self.store_waiting::<R, false>(numbers, sites),
            }
        }
        *count = 0;
        sites.clear();
    }

    /// Converts the sums of a tile to numbers that wait for the function.
    ///
    /// # Safety
    /// As [`Writer::write`], whose checks must have been made.
    ///
    /// # Panics
    /// Panics if too many numbers wait.
    #[inline(always)]
    unsafe fn add_waiting<R: Reals, const ADDED: bool>(
        &self,
        sums: &[[i32; TILE[1]]],
        site: Site,
        waiting: &mut Waiting,
    ) {
        let Waiting { numbers, count, sites } = waiting;
        if numbers.is_empty() {
            numbers.resize(MOST_WAITING + PANEL, 0.0);
        }
        let len = sums.len() * site.columns;
        let mut to = numbers[*count..][..len + PANEL].as_mut_ptr();
        // SAFETY: the caller's promise. There is room for all rows and one more panel: the last panel of a row may reach into
        // the next row, which is written later.
        unsafe {
            let how = How::<R, ADDED, false>::new(self);
            for (row, sums) in sums.iter().enumerate() {
                let output = site.output + row * site.stride;
                for from in (0..site.columns).step_by(PANEL) {
                    let factors = self.factors.at::<R>(site.factors + from);
                    let count = (site.columns - from).min(PANEL);
                    let x = how.real(sums[from..].as_ptr(), factors, output + from, count);
                    x.store(to.add(from));
                }
                to = to.add(site.columns);
            }
        }
        *count += len;
        sites.push(site);
    }

    /// Stores the results of the function for some tiles.
    ///
    /// # Safety
    /// As [`Writer::write`], whose checks must have been made for each site. There must be a number for each output, and those
    /// of a panel in addition.
    #[inline(always)]
    unsafe fn store_waiting<R: Reals, const BYTES: bool>(&self, numbers: &[f32], sites: &[Site]) {
        let mut numbers = numbers.as_ptr();
        // SAFETY: the caller's promise. What was added makes no difference to storing.
        unsafe {
            let how = How::<R, false, BYTES>::new(self);
            for site in sites {
                for row in 0..site.rows {
                    let output = site.output + row * site.stride;
                    for from in (0..site.columns).step_by(PANEL) {
                        let count = (site.columns - from).min(PANEL);
                        how.store(R::load(numbers.add(from)), output + from, count);
                    }
                    numbers = numbers.add(site.columns);
                }
            }
        }
    }

    /// As [`Writer::write`] without a function, with or without values to add, and to bytes or floats.
    ///
    /// # Safety
    /// As [`Writer::write`], whose checks must have been made.
    #[inline(always)]
    unsafe fn rows<R: Reals, const ADDED: bool, const BYTES: bool>(
        &self,
        sums: &[[i32; TILE[1]]],
        site: Site,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            // In a variable, so that it is known not to change when outputs are stored.
            let how = How::<R, ADDED, BYTES>::new(self);
            for from in (0..site.columns).step_by(PANEL) {
                let factors = self.factors.at::<R>(site.factors + from);
                let (output, count) = (site.output + from, site.columns - from);
                let sums = sums.iter().map(|sums| sums[from..].as_ptr()).enumerate();
                if count >= PANEL {
                    for (row, sums) in sums {
                        let output = output + row * site.stride;
                        how.store(how.real(sums, factors, output, PANEL), output, PANEL);
                    }
                } else {
                    for (row, sums) in sums {
                        let output = output + row * site.stride;
                        how.store(how.real(sums, factors, output, count), output, count);
                    }
                }
            }
        }
    }
}

/// What a [`Writer`] does, in registers.
#[derive(Clone, Copy)]
struct How<R, const ADDED: bool, const BYTES: bool> {
    first: *mut u8,
    zero: i32,
    has_offsets: bool,
    inverse: R,
    bounds: [R; 2],
    values: *const u8,
    /// What makes the values unsigned by an exclusive or, and their zero point then.
    flip: u8,
    values_zero: i32,
    values_scale: R,
}

impl<R: Reals, const ADDED: bool, const BYTES: bool> How<R, ADDED, BYTES> {
    /// # Safety
    /// As [`Writer::write`].
    #[inline(always)]
    unsafe fn new(writer: &Writer<'_>) -> Self {
        let Writer { first, finish, bounds: [low, high], .. } = *writer;
        let (mut values, mut flip, mut values_zero, mut scale) = (std::ptr::null(), 0, 0, 0.0);
        if let Some(added) = finish.added {
            (values, flip, scale) = (added.values.data.as_ptr(), added.values.flip, added.scale);
            values_zero = added.zero_point.wrapping_add(i32::from(flip));
        }
        // SAFETY: the caller's promise.
        let (inverse, bounds, values_scale) =
            unsafe { (R::splat(finish.inverse), [R::splat(low), R::splat(high)], R::splat(scale)) };
        let (zero, has_offsets) = (finish.zero_point, writer.factors.has_offsets());
        Self { first, zero, has_offsets, inverse, bounds, values, flip, values_zero, values_scale }
    }

    /// The numbers that the sums of a panel represent, and what is added to the first `count` of them.
    ///
    /// # Safety
    /// As [`Writer::write`]; `count` outputs must be there from the position on.
    #[inline(always)]
    unsafe fn real(
        self,
        sums: *const i32,
        (starts, offsets, multipliers): (R::Starts, R, R),
        output: usize,
        count: usize,
    ) -> R {
        // SAFETY: the caller's promise; there are as many values to add as outputs.
        unsafe {
            let sums = R::of_sums(sums, starts);
            let x = if self.has_offsets { sums.add(offsets) } else { sums }.times(multipliers);
            if !ADDED {
                return x;
            }
            let mut few = [0; PANEL];
            let mut values = self.values.add(output);
            if count < PANEL {
                copy(values, few.as_mut_ptr(), count);
                values = few.as_ptr();
            }
            x.add(R::of_bytes(values, self.flip, self.values_zero).times(self.values_scale))
        }
    }

    /// Stores the first `count` outputs of a panel.
    ///
    /// # Safety
    /// As [`How::real`].
    #[inline(always)]
    unsafe fn store(self, x: R, output: usize, count: usize) {
        let [low, high] = self.bounds;
        // SAFETY: the caller's promise. The outputs are as aligned as their type requires.
        unsafe {
            if BYTES {
                let (to, steps) = (self.first.add(output), x.times(self.inverse).within(low, high));
                if count >= PANEL {
                    steps.to_bytes(self.zero, to);
                    return;
                }
                let mut few = [0; PANEL];
                steps.to_bytes(self.zero, few.as_mut_ptr());
                copy(few.as_ptr(), to, count);
            } else {
                let (to, x) = (self.first.cast::<f32>().add(output), x.clamp(low, high));
                if count >= PANEL {
                    x.store(to);
                    return;
                }
                let mut few = [0.0; PANEL];
                x.store(few.as_mut_ptr());
                copy(few.as_ptr(), to, count);
            }
        }
    }
}

/// Copies fewer than 64 elements, without calling a function.
///
/// # Safety
/// Both pointers must be valid for that many elements.
#[inline(always)]
pub(super) unsafe fn copy<T: Copy>(from: *const T, to: *mut T, count: usize) {
    let mut at = 0;
    macro_rules! parts {
        ($($len:literal)*) => {$(
            if count & $len != 0 {
                // SAFETY: the caller's promise: the parts are as long as `count`.
                unsafe { to.add(at).cast::<[T; $len]>().write_unaligned(from.add(at).cast::<[T; $len]>().read_unaligned()) };
                at += $len;
            }
        )*};
    }
    parts!(32 16 8 4 2 1);
    debug_assert_eq!(at, count, "there are too many elements");
}
