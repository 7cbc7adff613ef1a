//! The frequencies of Fourier transforms, and spectra with the frequency 0 in the middle.

use crate::creation::counted::{Integer, counted_layers, float_type, vector};
use crate::layout::repetition::Roll;
use crate::op::{CpuLayer, Io, Layer, Result, TensorMeta};
use crate::support::arguments::ParamOrInput;
use crate::support::delegation::delegating;
use ixion_tensor::{DType, Dim, Limits, Tensor, TensorView, resolve_axes};

delegating! {
    {
        /// The axes; negative values count from the end. All axes by default.
        dim: Option<Vec<i64>> = None,
    }

    /// `torch.fft.fftshift`: moves the frequency 0 of a spectrum from the start of each axis to its middle.
    FftShift for "aten::fft_fftshift" |layer| ByHalf { dim: layer.dim.clone(), rounds_up: false };

    /// `torch.fft.ifftshift`: moves the frequency 0 of a spectrum from the middle of each axis to its start, the inverse of
    /// [`FftShift`].
    IfftShift for "aten::fft_ifftshift" |layer| ByHalf { dim: layer.dim.clone(), rounds_up: true };
}

crate::operator! {
    /// `torch.fft.fftfreq`: the frequencies of the Fourier transform of n samples, in its order: 0 and the positive ones, then
    /// the negative ones.
    pub struct FftFreq for "aten::fft_fftfreq" {
        /// The number of samples.
        n: Integer,
        /// The distance between samples.
        d: f64 = 1.0,
        /// The element type, a float; f32 by default.
        dtype: Option<DType> = None,
    }
}

crate::operator! {
    /// `torch.fft.rfftfreq`: the frequencies of the first half of the Fourier transform of n samples: 0 and the positive ones,
    /// ⌊n/2⌋ + 1 in all.
    pub struct RfftFreq for "aten::fft_rfftfreq" {
        /// The number of samples.
        n: Integer,
        /// The distance between samples.
        d: f64 = 1.0,
        /// The element type, a float; f32 by default.
        dtype: Option<DType> = None,
    }
}

/// Rolls axes by half of their lengths.
#[derive(Debug, Clone)]
struct ByHalf {
    dim: Option<Vec<i64>>,
    rounds_up: bool,
}

impl ByHalf {
    fn axes(&self, rank: usize) -> Result<Vec<usize>> {
        match &self.dim {
            Some(dim) => Ok(resolve_axes(dim, rank)?),
            None => Ok((0..rank).collect()),
        }
    }
}

impl Layer for ByHalf {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.axes(inputs[0].rank())?;
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for ByHalf {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let shape = io.inputs[0].shape();
        let axes = self.axes(shape.rank())?;
        let half = |len: usize| if self.rounds_up { len.div_ceil(2) } else { len / 2 };
        let shift = |&axis: &usize| i64::try_from(half(shape.get(axis).copied().unwrap_or(0))).unwrap_or(0);
        let shifts: Vec<i64> = axes.iter().map(shift).collect();
        // Without axes, a roll would shift the elements of the flattened input.
        if axes.is_empty() || shape.rank() == 0 {
            return Ok(io.outputs[0].copy_from(&io.inputs[0])?);
        }
        let dims = axes.iter().map(|&axis| axis as i64).collect();
        Roll { shifts: ParamOrInput::Value(shifts), dims: Some(dims) }.forward(io)
    }
}

macro_rules! frequencies {
    ($($name:ident of $count:expr, at $place:expr;)*) => {
        $(
            impl $name {
                fn meta(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
                    let count: fn(Dim) -> Dim = $count;
                    let count = count(self.n.length("n", inputs)?);
                    Ok(TensorMeta::new(float_type(self.dtype)?, [count]))
                }

                fn tensor(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Tensor> {
                    let dtype = float_type(self.dtype)?;
                    let n = self.n.count("n", inputs)?;
                    let meta = self.meta(&TensorMeta::of_all(inputs))?;
                    let count = meta.num_elements().fixed().and_then(|count| usize::try_from(count).ok());
                    let place: fn(usize, usize) -> f64 = $place;
                    let step = 1.0 / (n as f64 * self.d);
                    let number = |at: usize| place(at, n) * step;
                    vector("the frequencies", count.unwrap_or(0), dtype, limits, &number)
                }
            }
        )*

        counted_layers!($($name),*);
    };
}

frequencies! {
    FftFreq of |n| n, at |place, n| if place < n.div_ceil(2) { place as f64 } else { place as f64 - n as f64 };
    RfftFreq of |n| n.floor_div(2) + 1, at |place, _| place as f64;
}

operators! {
    FftShift, IfftShift, FftFreq, RfftFreq;
    overload "aten::fft_fftfreq"(n, d, dtype, layout, device, pin_memory),
        "aten::fft_rfftfreq"(n, d, dtype, layout, device, pin_memory)
}

#[cfg(test)]
mod tests {
    use crate::op::TensorMeta;
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::{DType, Dim, Tensor};

    /// PyTorch's results.
    #[test]
    fn halves_are_swapped() {
        let x = counting(DType::I64, &[2, 3]);
        let values = |op_type, params: &[(&'static str, &'static str)]| {
            operator(op_type, params).run_one(&[&x]).unwrap().to_vec::<i64>().unwrap()
        };
        assert_eq!(values("aten::fft_fftshift", &[]), [5, 3, 4, 2, 0, 1]);
        assert_eq!(values("aten::fft_ifftshift", &[]), [4, 5, 3, 1, 2, 0]);
        assert_eq!(values("aten::fft_fftshift", &[("dim", "1")]), [2, 0, 1, 5, 3, 4]);
        assert_eq!(values("aten::fft_ifftshift", &[("dim", "(-1)")]), [1, 2, 0, 4, 5, 3]);
        assert_eq!(values("aten::fft_fftshift", &[("dim", "(1,1)")]), [1, 2, 0, 4, 5, 3]);
        let scalar = Tensor::scalar(7i64);
        assert_eq!(operator("aten::fft_fftshift", &[]).run_one(&[&scalar]).unwrap(), scalar);
        assert!(operator("aten::fft_fftshift", &[("dim", "2")]).run(&[&x]).is_err());
        for op_type in ["aten::fft_fftshift", "aten::fft_ifftshift"] {
            operator(op_type, &[]).survives(1);
            operator(op_type, &[("dim", "(0,-1)")]).survives(1);
        }
    }

    /// PyTorch's results.
    #[test]
    fn frequencies() {
        let run = |op_type, params: &[(&'static str, &'static str)]| operator(op_type, params).run_one(&[]);
        let of_five = run("aten::fft_fftfreq", &[("n", "5"), ("d", "2.0")]).unwrap();
        assert_close(&of_five, &[5], &[0.0, 0.1, 0.2, -0.2, -0.1]);
        assert_close(&run("aten::fft_fftfreq", &[("n", "4")]).unwrap(), &[4], &[0.0, 0.25, -0.5, -0.25]);
        let half = run("aten::fft_rfftfreq", &[("n", "5"), ("dtype", "torch.double")]).unwrap();
        assert_eq!(half.dtype(), DType::F64);
        assert_close(&half, &[3], &[0.0, 0.2, 0.4]);
        assert_close(&run("aten::fft_fftfreq", &[("n", "0")]).unwrap(), &[0], &[]);
        assert_close(&run("aten::fft_rfftfreq", &[("n", "0")]).unwrap(), &[1], &[f64::NAN]);
        assert!(run("aten::fft_fftfreq", &[("n", "-2")]).is_err());
        assert!(run("aten::fft_rfftfreq", &[("n", "4"), ("dtype", "torch.long")]).is_err());
        for op_type in ["aten::fft_fftfreq", "aten::fft_rfftfreq"] {
            let computed = operator(op_type, &[]).with_names(&["n"]);
            assert!(computed.run_one(&[&tensor(&[], &[6i64])]).is_ok());
            computed.survives(1);
        }
        let n = TensorMeta::new(DType::I64, [0; 0]).with_values(vec![Dim::symbol("n")]);
        let inferred = operator("aten::fft_rfftfreq", &[]).with_names(&["n"]).infer(&[n]).unwrap();
        assert_eq!(inferred[0].to_string(), "(n / 2 + 1) f32");
    }
}
