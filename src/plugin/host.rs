//! The functions that a plugin may call during a call, and the conversion of its results.

use super::abi::{self, Host};
use super::text::lossy;
use crate::Limits;
use crate::op::{LayerError, timed_limits};
use crate::tensor::Dim;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of symbols in one call.
const MAX_DIMS: usize = 1 << 16;

/// Symbols are numbers that arithmetic does not produce by accident: the low 32 bits are `TAG`, the bits above are a position
/// counted from `FIRST`, which is not small.
const TAG: i64 = 0x5953_4d21;
const FIRST: i64 = 1 << 20;

/// One call of a plugin.
#[derive(Debug, Default)]
pub(crate) struct Call {
    limits: Limits,
    message: Mutex<Option<String>>,
    /// The symbols that the plugin has seen.
    dims: Mutex<Vec<Dim>>,
    /// The launches that the plugin enqueued.
    launches: Mutex<Vec<Wanted>>,
    /// The reason why a launch was rejected.
    refused: Mutex<Option<String>>,
}

/// A launch that a plugin enqueued.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "a build without GPUs launches nothing"))]
pub(crate) struct Wanted {
    pub(crate) file: String,
    pub(crate) source: String,
    pub(crate) kernel: String,
    pub(crate) blocks: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) arguments: Vec<abi::CudaArgument>,
}

/// The maximum numbers of launches of one call, and of arguments of a kernel.
const MAX_LAUNCHES: usize = 1 << 10;
const MAX_ARGUMENTS: usize = 1 << 8;
/// The maximum number of threads in a block, on any GPU.
const MAX_THREADS: u64 = 1024;

impl Call {
    /// A call within these limits.
    pub(crate) fn within(limits: &Limits) -> Self {
        Self { limits: limits.clone(), ..Self::default() }
    }

    /// A call with the time limits of this thread's current work.
    pub(crate) fn timed() -> Self {
        timed_limits().as_ref().map_or_else(Self::default, Self::within)
    }

    /// The limits of the call.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Calls a plugin and returns its result as it is.
    pub(crate) fn answer(&self, call: impl FnOnce(*const Host) -> i32) -> i32 {
        let context = std::ptr::from_ref(self).cast_mut().cast();
        let (fail, stopped, dim) = (Some(fail as _), Some(stopped as _), Some(dim as _));
        let cuda_launch = Some(cuda_launch as _);
        call(&Host { size: size_of::<Host>(), context, fail, stopped, dim, cuda_launch })
    }

    /// Takes the enqueued launches.
    ///
    /// # Errors
    /// Returns the reason if a launch was rejected, even if the plugin ignored that.
    #[cfg(feature = "gpu")]
    pub(crate) fn launches(&self) -> Result<Vec<Wanted>, LayerError> {
        match locked(&self.refused).take() {
            Some(reason) => Err(LayerError::Plugin(reason)),
            None => Ok(std::mem::take(&mut locked(&self.launches))),
        }
    }

    fn note(&self, wanted: Result<Wanted, String>) -> i32 {
        let mut launches = locked(&self.launches);
        let reason = match wanted {
            Ok(wanted) if launches.len() < MAX_LAUNCHES => {
                launches.push(wanted);
                return abi::OK;
            }
            Ok(_) => format!("it enqueues more than {MAX_LAUNCHES} launches"),
            Err(reason) => reason,
        };
        *locked(&self.message) = Some(reason.clone());
        *locked(&self.refused) = Some(reason);
        abi::FAILED
    }

    /// Calls a plugin and converts its status to a result.
    ///
    /// # Errors
    /// Returns the reason for the failure that the plugin reported.
    pub(crate) fn run(&self, call: impl FnOnce(*const Host) -> i32) -> Result<(), LayerError> {
        let status = self.answer(call);
        let message = locked(&self.message).take();
        match status {
            abi::OK => Ok(()),
            abi::PANICKED => {
                Err(LayerError::Panic(message.unwrap_or_else(|| "without a message".to_owned())))
            }
            abi::STOPPED => {
                self.limits.check_deadline()?;
                Err(LayerError::Plugin("it returned IXION_STOPPED, but the run was not stopped".to_owned()))
            }
            abi::FAILED => Err(LayerError::Plugin(message.unwrap_or_else(|| "it gave no reason".to_owned()))),
            other => Err(LayerError::BrokenPromise {
                wanted: "a status such as IXION_FAILED".to_owned(),
                found: other.to_string(),
            }),
        }
    }

    /// A length as the plugin sees it: a symbol is encoded as a negative number.
    pub(crate) fn encode(&self, dim: &Dim) -> i64 {
        match dim {
            Dim::Fixed(length @ 0..) => *length,
            dim => {
                let mut dims = locked(&self.dims);
                let known = dims.iter().position(|known| known == dim);
                let position = known.unwrap_or(dims.len());
                if position >= MAX_DIMS {
                    return abi::UNKNOWN;
                }
                if known.is_none() {
                    dims.push(dim.clone());
                }
                i64::MIN | (FIRST + position as i64) << 32 | TAG
            }
        }
    }

    /// The length that the plugin's number encodes; `None` if the number is not valid.
    pub(crate) fn decode(&self, length: i64) -> Option<Dim> {
        match length {
            0.. => Some(Dim::Fixed(length)),
            abi::UNKNOWN => Some(Dim::fresh("plugin")),
            _ => {
                let position = ((length & i64::MAX) >> 32) - FIRST;
                let is_tagged = length & 0xffff_ffff == TAG;
                let position = usize::try_from(position).ok().filter(|_| is_tagged)?;
                locked(&self.dims).get(position).cloned()
            }
        }
    }

    fn compute(&self, operation: i32, a: i64, b: i64) -> i64 {
        if a == abi::UNKNOWN || b == abi::UNKNOWN {
            return abi::UNKNOWN;
        }
        // Unlike the lengths of a tensor, an operand may be a negative number.
        let side = |side: i64| self.decode(side).unwrap_or(Dim::Fixed(side));
        let (a, b) = (side(a), side(b));
        match operation {
            abi::ADD => self.encode(&(a + b)),
            abi::SUB => self.encode(&(a - b)),
            abi::MUL => self.encode(&(a * b)),
            abi::FLOOR_DIV => self.encode(&a.floor_div(b)),
            abi::CEIL_DIV => self.encode(&a.ceil_div(b)),
            abi::MAX => self.encode(&a.max(b)),
            abi::MIN => self.encode(&a.min(b)),
            _ => abi::UNKNOWN,
        }
    }
}

/// Locks a mutex, ignoring poisoning: a panic under one of these locks leaves the data consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The call that a host belongs to.
///
/// # Safety
/// The host must be the one that was passed to the call, and the call must not have returned.
unsafe fn call<'a>(host: *const Host) -> Option<&'a Call> {
    // SAFETY: by contract; the context is a `Call` that outlives the call.
    unsafe { host.as_ref()?.context.cast::<Call>().cast_const().as_ref() }
}

unsafe extern "C" fn fail(host: *const Host, message: *const c_char) -> i32 {
    // SAFETY: the plugin passes its host, and a text that ends with a zero, as the header requires.
    let (call, message) = unsafe { (self::call(host), lossy(message)) };
    if let (Some(call), Some(message)) = (call, message) {
        *locked(&call.message) = Some(message.chars().take(abi::MAX_NAME as usize).collect());
    }
    abi::FAILED
}

unsafe extern "C" fn stopped(host: *const Host) -> i32 {
    // SAFETY: the plugin passes its host, as the header requires.
    match unsafe { call(host) } {
        Some(call) if call.limits.check_deadline().is_err() => abi::STOPPED,
        _ => abi::OK,
    }
}

unsafe extern "C" fn dim(host: *const Host, operation: i32, a: i64, b: i64) -> i64 {
    // SAFETY: the plugin passes its host, as the header requires.
    unsafe { call(host) }.map_or(abi::UNKNOWN, |call| call.compute(operation, a, b))
}

unsafe extern "C" fn cuda_launch(host: *const Host, launch: *const abi::CudaLaunch) -> i32 {
    // SAFETY: the plugin passes its host and a launch, as the header requires.
    let (Some(call), Some(launch)) = (unsafe { (call(host), launch.as_ref()) }) else { return abi::FAILED };
    // SAFETY: as above.
    call.note(unsafe { wanted(launch) })
}

/// Copies a launch and everything that it points to.
///
/// # Safety
/// The launch must be as the header requires.
unsafe fn wanted(launch: &abi::CudaLaunch) -> Result<Wanted, String> {
    let abi::CudaLaunch { size, file, source, kernel, blocks, threads, shared, num_arguments, .. } = *launch;
    if size < size_of::<abi::CudaLaunch>() {
        return Err(format!(
            "the `size` of a launch is {size} bytes, which is too small; set it with sizeof"
        ));
    }
    // SAFETY: by contract texts end with a zero.
    let [file, source, kernel] = unsafe { [file, source, kernel].map(|text| lossy(text)) };
    let kernel = kernel.ok_or("a launch names no kernel")?;
    let source = source.ok_or_else(|| format!("the launch of `{kernel}` has no source"))?;
    let in_block = threads.iter().fold(1, |all: u64, axis| all.saturating_mul(u64::from(*axis)));
    if !(1..=MAX_THREADS).contains(&in_block) {
        return Err(format!(
            "the launch of `{kernel}` has {in_block} threads in a block; expected 1 to {MAX_THREADS}"
        ));
    }
    if num_arguments > MAX_ARGUMENTS || (launch.arguments.is_null() && num_arguments > 0) {
        return Err(format!(
            "the launch of `{kernel}` has more than {MAX_ARGUMENTS} arguments, or a null pointer to them"
        ));
    }
    let arguments = match num_arguments {
        0 => Vec::new(),
        // SAFETY: by contract there are that many.
        count => unsafe { std::slice::from_raw_parts(launch.arguments, count) }.to_vec(),
    };
    let file = file.unwrap_or_else(|| "plugin.cu".to_owned());
    Ok(Wanted { file, source, kernel, blocks, threads, shared, arguments })
}

/// A layer, as a library sees it.
pub(crate) type Opaque = *mut c_void;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_with_the_host_keeps_symbols() {
        let call = Call::default();
        let (height, n) = (Dim::symbol("h"), Dim::symbol("n"));
        let (h, same) = (call.encode(&height), call.encode(&height));
        assert!(h < 0 && h == same && call.encode(&n) != h && call.encode(&Dim::Fixed(7)) == 7);
        let half = call.compute(abi::FLOOR_DIV, call.compute(abi::ADD, h, -1), 2);
        assert_eq!(call.decode(half), Some((height - 1).floor_div(2)));
        assert_eq!(call.decode(call.compute(abi::SUB, 9, 2)), Some(Dim::Fixed(7)));
        assert_eq!(call.compute(abi::SUB, h, h), 0);
        assert_eq!(call.compute(abi::ADD, h, abi::UNKNOWN), abi::UNKNOWN);
    }

    #[test]
    fn plain_arithmetic_on_symbols_gives_no_valid_length() {
        let call = Call::default();
        let symbols = [call.encode(&Dim::symbol("a")), call.encode(&Dim::symbol("b"))];
        for symbol in symbols {
            for wrong in [symbol + 1, symbol / 2, symbol - 3, symbol.wrapping_mul(2), -symbol, -1] {
                let length = call.decode(wrong).map_or(1 << 50, |dim| dim.fixed().unwrap_or_default());
                assert!(length >= 1 << 50, "{symbol} became {wrong}");
            }
        }
    }
}
