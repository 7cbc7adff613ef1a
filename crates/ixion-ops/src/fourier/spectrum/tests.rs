mod forward;
mod inverse;

use crate::support::testing::{assert_close, operator, tensor, waves};
use ixion_tensor::{Complex, DType, Tensor};

type Case = (bool, &'static [(&'static str, &'static str)], &'static [usize], &'static [f64]);

/// A window without zeros.
fn window(len: usize) -> Tensor {
    let values: Vec<f64> =
        waves(&[4]).to_vec::<f64>().unwrap().iter().take(len).map(|x| x * x + 0.5).collect();
    tensor(&[len], &values)
}

fn run(op_type: &str, case: &Case, input: &Tensor) -> Tensor {
    let mut params = case.1.to_vec();
    if !case.0 {
        params.push(("window", "None"));
        return operator(op_type, &params).run_one(&[input]).unwrap();
    }
    let size = |key| params.iter().find(|param| param.0 == key).map(|param| param.1.parse().unwrap());
    let len = size("win_length").or(size("n_fft")).unwrap();
    operator(op_type, &params).with_names(&["input", "window"]).run_one(&[input, &window(len)]).unwrap()
}

fn parts(x: &Tensor) -> Tensor {
    let values = x.to_vec::<Complex<f64>>().unwrap();
    let parts: Vec<f64> = values.iter().flat_map(|value| [value.re, value.im]).collect();
    tensor(&[x.shape().dims(), &[2]].concat(), &parts)
}

#[test]
fn spectrograms_and_back() {
    let params = [("n_fft", "4"), ("hop_length", "1"), ("win_length", "4"), ("pad", "2")];
    let spectrogram = |more: &[(&'static str, &'static str)]| {
        let params = [&params[..], more].concat();
        let spectrogram = operator("torchaudio.functional.spectrogram", &params);
        spectrogram.with_names(&["waveform", "window"]).run_one(&[&waves(&[2, 1, 12]), &window(4)]).unwrap()
    };
    for normalized in ["False", "window", "frame_length"] {
        let complex = spectrogram(&[("power", "None"), ("normalized", normalized)]);
        assert_eq!(complex.shape().dims(), &[2, 1, 3, 17]);
        let values = complex.to_vec::<Complex<f64>>().unwrap();
        let powers: Vec<f64> = values.iter().map(|value| value.norm_sqr()).collect();
        let power = spectrogram(&[("power", "2.0"), ("normalized", normalized)]);
        assert_close(&power, &[2, 1, 3, 17], &powers);
        let params = [&params[..], &[("length", "12"), ("normalized", normalized)]].concat();
        let inverse = operator("torchaudio.functional.inverse_spectrogram", &params);
        let back = inverse.with_names(&["spectrogram", "window"]).run_one(&[&complex, &window(4)]).unwrap();
        assert_close(&back, &[2, 1, 12], &waves(&[2, 1, 12]).to_vec::<f64>().unwrap());
    }
}

#[test]
fn torchscript_has_further_functions() {
    let x = waves(&[12]);
    let frames = [("n_fft", "4"), ("hop_length", "2"), ("return_complex", "True")];
    let spectrum = |op_type, center: &[(&'static str, &'static str)]| {
        operator(op_type, &[&frames[..], center].concat()).run_one(&[&x]).unwrap()
    };
    let (centred, not_centred) = ([("center", "True")], [("center", "False")]);
    assert_eq!(spectrum("aten::stft", &[]), spectrum("torch.stft", &not_centred));
    assert_eq!(spectrum("aten::stft", &centred), spectrum("torch.stft", &[]));
    let spectrum = spectrum("torch.stft", &[]);
    let back =
        |params: &[(&'static str, &'static str)]| operator("aten::istft", &[&frames[..2], params].concat());
    let wanted = back(&[("length", "9")]).run_one(&[&spectrum]).unwrap();
    let computed = back(&[]).with_names(&["input", "length"]);
    assert_eq!(computed.run_one(&[&spectrum, &tensor(&[], &[9i64])]).unwrap(), wanted);
    assert_eq!(wanted.shape().dims(), [9]);
    for length in ["0", "-3"] {
        assert!(back(&[("length", length)]).run(&[&spectrum]).is_err());
    }
    assert!(computed.run(&[&spectrum, &tensor(&[], &[0i64])]).is_err());
    assert!(computed.run(&[&spectrum, &tensor(&[], &[9.0f32])]).is_err());
}

#[test]
fn mismatches_are_rejected() {
    let refused = |op_type: &str, params: &[(&str, &str)], input: &Tensor| {
        assert!(operator(op_type, params).run(&[input]).is_err(), "{op_type} {params:?}");
    };
    for params in [
        &[("n_fft", "0")][..],
        &[("n_fft", "2")],
        &[("n_fft", "40")],
        &[("n_fft", "4"), ("hop_length", "0")],
        &[("n_fft", "4"), ("win_length", "5")],
        &[("n_fft", "99999999999")],
    ] {
        refused("torch.stft", params, &waves(&[12]));
    }
    let complex = Tensor::ones(DType::C64, &[12]).unwrap();
    refused("torch.stft", &[("n_fft", "4"), ("onesided", "True")], &complex);
    refused("torch.istft", &[("n_fft", "4")], &waves(&[3, 4]));
    let complex = Tensor::ones(DType::C64, &[3, 4]).unwrap();
    refused("torch.istft", &[("n_fft", "4"), ("return_complex", "True")], &complex);
    refused("torch.istft", &[("n_fft", "4"), ("hop_length", "9"), ("center", "False")], &complex);
    refused("torch.istft", &[("n_fft", "9")], &complex);
    for onesided in ["True", "False", "None"] {
        operator("torch.stft", &[("n_fft", "4"), ("onesided", onesided)]).survives(1);
        operator("torch.stft", &[("n_fft", "4"), ("onesided", onesided), ("center", "False")]).survives(2);
        operator("torch.istft", &[("n_fft", "4"), ("onesided", onesided)]).survives(1);
        operator("torch.istft", &[("n_fft", "4"), ("onesided", onesided), ("length", "50")]).survives(2);
    }
}
