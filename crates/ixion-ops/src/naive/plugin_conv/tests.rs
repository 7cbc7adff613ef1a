//! The plugin with damaged states and unusual models.

use super::*;
use crate::op::{ForwardContext, OperatorReader, RuntimeAttribute, RuntimeParameter};
use ixion_tensor::Tensor;
use std::collections::BTreeMap;

fn conv(out_channels: usize) -> Box<dyn CpuLayer> {
    let params =
        [("in_channels", "2"), ("out_channels", &*out_channels.to_string()), ("kernel_size", "(3,2)")]
            .map(|(key, text)| (key.to_owned(), RuntimeParameter::parse(text)));
    let weight = RuntimeAttribute::random(DType::F32, &[out_channels, 2, 3, 2], 1);
    let attrs = BTreeMap::from([("weight".to_owned(), weight)]);
    let registry = registry().unwrap();
    let creator = registry.get("nn.Conv2d").unwrap();
    creator.create(OperatorReader::new(&params.into(), &attrs, &[None], 1)).unwrap()
}

/// The state of a layer that is configured for int8.
fn state() -> Vec<u8> {
    let mut conv = conv(3);
    let meta = |dims: [usize; 4], scale| TensorMeta::new(DType::I8, dims).with_scale(Some(scale));
    conv.configure(&[meta([1, 2, 5, 4], 0.5)], &[meta([1, 3, 3, 3], 0.25)]).unwrap();
    conv.serialize().unwrap()
}

#[test]
fn damaged_states_are_refused_or_run() {
    let (bytes, x) = (state(), Tensor::full(&[1, 2, 5, 4], -128i8).unwrap());
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let mut conv = conv(3);
            if conv.deserialize(&damaged).is_err() {
                continue;
            }
            let mut y = Tensor::full(&[1, 3, 3, 3], 0i8).unwrap();
            let mut workspace = ixion_tensor::Workspace::new().unwrap();
            workspace.reserve(15 * 9 * 4).unwrap();
            let limits = ixion_tensor::Limits::default();
            let mut context = ForwardContext::new(&mut workspace, &limits);
            // Overflow would panic here, because tests are built with overflow checks.
            conv.forward(&mut Io::new(&[x.view()], &mut [y.view_mut().unwrap()], &mut context)).unwrap();
        }
    }
    for len in 1..bytes.len() {
        // Without quantised weights, a state ends after the lengths.
        assert_eq!(conv(3).deserialize(&bytes[..len]).is_ok(), len == 65, "{len} bytes");
    }
}

#[test]
fn the_state_of_another_number_of_channels_is_refused() {
    assert!(conv(3).deserialize(&state()).is_ok());
    assert!(conv(4).deserialize(&state()).is_err());
}

#[test]
fn a_layer_that_is_not_configured_does_not_run() {
    let x = Tensor::full(&[1, 2, 5, 4], 1f32).unwrap();
    let mut y = Tensor::full(&[1, 3, 3, 3], 0f32).unwrap();
    let mut workspace = ixion_tensor::Workspace::new().unwrap();
    let limits = ixion_tensor::Limits::default();
    let mut context = ForwardContext::new(&mut workspace, &limits);
    let error =
        conv(3).forward(&mut Io::new(&[x.view()], &mut [y.view_mut().unwrap()], &mut context)).unwrap_err();
    assert!(error.to_string().contains("not configured"), "{error}");
}

#[test]
fn weights_of_no_channels_are_refused() {
    let weight = Weight::Attribute(RuntimeAttribute::random(DType::F32, &[0, 2, 1, 1], 1));
    assert!(stored("the weight", &weight, &[0, 2, 1, 1]).is_err());
    assert!(stored("the weight", &Weight::Input(1), &[1, 2, 1, 1]).is_err());
}

#[test]
fn sums_do_not_overflow_32_bits() {
    // There must be fewer than 2³¹ / 2¹⁴ products of two int8 values.
    let row = |taps: usize| ndarray::Array2::from_elem((1, taps), 1f32);
    assert!(quantize(row((1 << 17) - 1).view(), &[0.0], [1.0, 1.0]).is_ok());
    assert!(quantize(row(1 << 17).view(), &[0.0], [1.0, 1.0]).is_err());
}
