//! Window functions, by which signals are multiplied before a Fourier transform.

use super::counted::{Integer, counted_layers, float_type, vector};
use crate::arithmetic::special::i0;
use crate::op::{Result, TensorMeta};
use ixion_tensor::{DType, Limits, Tensor, TensorView};
use std::f64::consts::TAU;

/// Declares windows: the fields that only this window has, and its value at a place from 0, the first element, to 1, the last
/// one, or the one after it if the window is periodic.
macro_rules! windows {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $op_type:literal { $($fields:tt)* } |$layer:ident, $place:ident| $value:expr;
    )*) => {
        $(
            crate::operator! {
                $(#[doc = $doc])*
                pub struct $name for $op_type {
                    /// The length.
                    window_length: Integer,
                    /// Whether the window is one period of a periodic function: that of a symmetric window which is one element
                    /// longer, without its last element.
                    periodic: bool = true,
                    $($fields)*
                    /// The element type, a float; f32 by default.
                    dtype: Option<DType> = None,
                }
            }

            impl $name {
                fn meta(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
                    let len = self.window_length.length("window_length", inputs)?;
                    Ok(TensorMeta::new(float_type(self.dtype)?, [len]))
                }

                fn tensor(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Tensor> {
                    let ($layer, dtype) = (self, float_type(self.dtype)?);
                    let _ = $layer;
                    let len = self.window_length.count("window_length", inputs)?;
                    window(len, self.periodic, dtype, limits, &|$place: f64| $value)
                }
            }
        )*

        counted_layers!($($name),*);
    };
}

windows! {
    /// `torch.hann_window`: the Hann window, ½ − ½ cos x over one period.
    HannWindow for "aten::hann_window" {}
    |layer, place| 0.5 - 0.5 * (TAU * place).cos();

    /// `torch.hamming_window`: the Hamming window, α − β cos x over one period.
    HammingWindow for "aten::hamming_window" {
        /// The constant α.
        alpha: f64 = 0.54,
        /// The factor β of the cosine.
        beta: f64 = 0.46,
    }
    |layer, place| layer.alpha - layer.beta * (TAU * place).cos();

    /// `torch.blackman_window`: the Blackman window, 0.42 − ½ cos x + 0.08 cos 2x over one period.
    BlackmanWindow for "aten::blackman_window" {}
    |layer, place| 0.42 - 0.5 * (TAU * place).cos() + 0.08 * (2.0 * TAU * place).cos();

    /// `torch.bartlett_window`: the Bartlett window, a triangle that is 0 at both ends.
    BartlettWindow for "aten::bartlett_window" {}
    |layer, place| 1.0 - (2.0 * place - 1.0).abs();

    /// `torch.kaiser_window`: the Kaiser window, I₀(β √(1 − x²)) / I₀(β) for x from −1 to 1, where I₀ is the modified Bessel
    /// function of order 0.
    KaiserWindow for "aten::kaiser_window" {
        /// The shape β: the larger, the narrower.
        beta: f64 = 12.0,
    }
    |layer, place| {
        let x = 2.0 * place - 1.0;
        i0(layer.beta * (1.0 - x * x).max(0.0).sqrt()) / i0(layer.beta)
    };
}

/// A window of this length, given its value at each place. A single element is 1, as in PyTorch.
fn window(
    len: usize,
    periodic: bool,
    dtype: DType,
    limits: &Limits,
    value: &dyn Fn(f64) -> f64,
) -> Result<Tensor> {
    let last = len.saturating_sub(usize::from(!periodic)) as f64;
    let number = |place: usize| if len == 1 { 1.0 } else { value(place as f64 / last) };
    vector("the values of a window", len, dtype, limits, &number)
}

operators! {
    HannWindow, HammingWindow, BlackmanWindow, BartlettWindow, KaiserWindow;
    overload "aten::hann_window"(window_length, dtype, layout, device, pin_memory) of 5,
        "aten::hann_window"(window_length, periodic, dtype, layout, device, pin_memory),
        "aten::hamming_window"(window_length, dtype, layout, device, pin_memory) of 5,
        "aten::hamming_window"(window_length, periodic, dtype, layout, device, pin_memory) of 6,
        "aten::hamming_window"(window_length, periodic, alpha, dtype, layout, device, pin_memory) of 7,
        "aten::hamming_window"(window_length, periodic, alpha, beta, dtype, layout, device, pin_memory),
        "aten::blackman_window"(window_length, dtype, layout, device, pin_memory) of 5,
        "aten::blackman_window"(window_length, periodic, dtype, layout, device, pin_memory),
        "aten::bartlett_window"(window_length, dtype, layout, device, pin_memory) of 5,
        "aten::bartlett_window"(window_length, periodic, dtype, layout, device, pin_memory),
        "aten::kaiser_window"(window_length, dtype, layout, device, pin_memory) of 5,
        "aten::kaiser_window"(window_length, periodic, dtype, layout, device, pin_memory) of 6,
        "aten::kaiser_window"(window_length, periodic, beta, dtype, layout, device, pin_memory)
}

#[cfg(test)]
mod tests {
    use crate::op::{Result, TensorMeta};
    use crate::support::testing::{assert_close, operator, tensor};
    use ixion_tensor::{DType, Dim, Tensor};

    const NAMES: [&str; 5] = ["hann", "hamming", "blackman", "bartlett", "kaiser"];

    fn window(name: &str, params: &[(&str, &str)]) -> Result<Tensor> {
        operator(&format!("aten::{name}_window"), params).run_one(&[])
    }

    /// PyTorch's results.
    #[test]
    fn values() {
        let of_four =
            |name, periodic| window(name, &[("window_length", "4"), ("periodic", periodic)]).unwrap();
        let check = |name, symmetric: [f64; 4], periodic: [f64; 4]| {
            assert_close(&of_four(name, "False"), &[4], &symmetric);
            assert_close(&of_four(name, "True"), &[4], &periodic);
        };
        check("hann", [0.0, 0.75, 0.75, 0.0], [0.0, 0.5, 1.0, 0.5]);
        check("hamming", [0.08, 0.77, 0.77, 0.08], [0.08, 0.54, 1.0, 0.54]);
        check("blackman", [0.0, 0.63, 0.63, 0.0], [0.0, 0.34, 1.0, 0.34]);
        check("bartlett", [0.0, 0.6666667, 0.6666667, 0.0], [0.0, 0.5, 1.0, 0.5]);
        let (edge, inner) = (5.277_344e-5, 0.518_844_72);
        check("kaiser", [edge, inner, inner, edge], [edge, 0.215_672_74, 1.0, 0.215_672_74]);
        let params = [("window_length", "3"), ("alpha", "0.5"), ("beta", "0.25")];
        assert_close(&window("hamming", &params).unwrap(), &[3], &[0.25, 0.625, 0.625]);
        let double =
            [("window_length", "2"), ("periodic", "True"), ("beta", "-3.0"), ("dtype", "torch.double")];
        let double = window("kaiser", &double).unwrap();
        assert_close(&double, &[2], &[0.204_884_756_401_253_6, 1.0]);
    }

    #[test]
    fn short_windows_and_other_types() {
        for name in NAMES {
            assert_close(&window(name, &[("window_length", "0")]).unwrap(), &[0], &[]);
            for periodic in ["True", "False"] {
                let one = [("window_length", "1"), ("periodic", periodic)];
                assert_close(&window(name, &one).unwrap(), &[1], &[1.0]);
            }
            let half = window(name, &[("window_length", "2"), ("dtype", "torch.half")]).unwrap();
            assert_eq!(
                (half.dtype(), half.to_vec::<ixion_tensor::f16>().unwrap()[1].to_f32()),
                (DType::F16, 1.0)
            );
            assert!(window(name, &[("window_length", "-1")]).is_err());
            assert!(window(name, &[("window_length", "2"), ("dtype", "torch.long")]).is_err());
            assert!(window(name, &[("window_length", "9223372036854775807")]).is_err());
        }
    }

    #[test]
    fn the_graph_may_compute_the_length() {
        for name in NAMES {
            let op_type = format!("aten::{name}_window");
            let layer = operator(&op_type, &[]).with_names(&["window_length"]);
            assert_eq!(layer.run_one(&[&tensor(&[], &[7i64])]).unwrap().shape().dims(), [7]);
            let n = TensorMeta::new(DType::I64, [0; 0]).with_values(vec![Dim::symbol("n")]);
            assert_eq!(layer.infer(&[n]).unwrap()[0].to_string(), "n f32");
            layer.survives(1);
        }
    }
}
