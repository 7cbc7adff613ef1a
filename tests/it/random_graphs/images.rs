//! Building blocks of convolutional networks.

use super::maker::{Maker, Weight};
use super::net::Value;
use super::recipes::activate;

/// A convolution, often followed by batch normalisation and an activation.
pub(crate) fn convolution(maker: &mut Maker) -> Option<()> {
    let x = maker.image()?;
    convolved(maker, x);
    Some(())
}

fn convolved(maker: &mut Maker, x: Value) -> Value {
    let same = maker.fixed(x, 1);
    let channels = maker.number(&[same, same, 4, 6, 8]);
    let space = maker.least(x, 2).min(maker.least(x, 3));
    let (kernel, padding) = match maker.number(&[0, 1, 1, 2]) {
        0 => (1, 0),
        2 if space >= 3 => (3, 0),
        _ => (3, 1),
    };
    let stride = if space >= 4 && maker.chance(25) { 2 } else { 1 };
    let mut y = maker.conv(x, channels, kernel, stride, padding);
    if maker.chance(55) {
        y = maker.batch_norm("nn.BatchNorm2d", y);
    }
    if maker.chance(60) { activate(maker, y) } else { y }
}

/// Zero padding, then a convolution without padding.
pub(crate) fn padded_convolution(maker: &mut Maker) -> Option<()> {
    let x = maker.image()?;
    let padded = match maker.chance(50) {
        true => maker.unary("nn.ZeroPad2d", x, &[("padding", "(1,1,1,1)")]),
        false => {
            let params = [("mode", "constant"), ("pad", "(1,1,1,1)"), ("value", "0.0")];
            maker.unary("F.pad", x, &params)
        }
    };
    let channels = maker.number(&[4, 8]);
    maker.conv(padded, channels, 3, 1, 0);
    Some(())
}

pub(crate) fn transposed(maker: &mut Maker) -> Option<()> {
    let x = maker.image().filter(|&x| maker.is_small(x))?;
    let (inputs, outputs) = (maker.fixed(x, 1), 4);
    let weights = [("weight", vec![inputs, outputs, 2, 2]), ("bias", vec![outputs])];
    let (inputs, outputs) = (inputs.to_string(), outputs.to_string());
    let params = [
        ("in_channels", &*inputs),
        ("out_channels", &outputs),
        ("kernel_size", "(2,2)"),
        ("stride", "(2,2)"),
        ("padding", "(0,0)"),
        ("output_padding", "(0,0)"),
        ("dilation", "(1,1)"),
        ("groups", "1"),
        ("bias", "True"),
    ];
    let y = maker.make("nn.ConvTranspose2d", &[("", x)], &params, &weights, 1)[0];
    if maker.chance(60) {
        maker.batch_norm("nn.BatchNorm2d", y);
    }
    Some(())
}

pub(crate) fn pooled(maker: &mut Maker) -> Option<()> {
    let x = maker.image()?;
    if maker.least(x, 2).min(maker.least(x, 3)) < 2 {
        return None;
    }
    let window =
        [("kernel_size", "(2,2)"), ("stride", "(2,2)"), ("padding", "(0,0)"), ("ceil_mode", "False")];
    let op_type = maker.one_of(&["nn.MaxPool2d", "F.max_pool2d", "nn.AvgPool2d", "F.avg_pool2d"]);
    maker.unary(op_type, x, &window);
    Some(())
}

pub(crate) fn normalized(maker: &mut Maker) -> Option<()> {
    let x = maker.image()?;
    let channels = maker.fixed(x, 1);
    let affine: Vec<Weight<'_>> = vec![("weight", vec![channels]), ("bias", vec![channels])];
    let number = channels.to_string();
    match maker.rng_below(5) {
        0 => maker.batch_norm("nn.BatchNorm2d", x),
        1 if channels.is_multiple_of(2) => {
            let params = [
                ("num_groups", "2"),
                ("num_channels", &*number),
                ("affine", "True"),
                ("eps", "1.000000e-05"),
            ];
            maker.make("nn.GroupNorm", &[("", x)], &params, &affine, 1)[0]
        }
        2 => maker.make("nn.PReLU", &[("", x)], &[("num_parameters", &number)], &affine[..1], 1)[0],
        3 => maker.unary("nn.LocalResponseNorm", x, &[("size", "2"), ("alpha", "1.000000e-04")]),
        _ => {
            let params = [("num_features", &*number), ("affine", "False"), ("eps", "1.000000e-05")];
            maker.unary("nn.InstanceNorm2d", x, &params)
        }
    };
    Some(())
}

pub(crate) fn resized(maker: &mut Maker) -> Option<()> {
    let x = maker.image()?;
    let channels = maker.fixed(x, 1);
    match maker.rng_below(4) {
        0 if channels.is_multiple_of(4) => maker.unary("nn.PixelShuffle", x, &[("upscale_factor", "2")]),
        1 if channels.is_multiple_of(2) => maker.unary("nn.ChannelShuffle", x, &[("groups", "2")]),
        2 if maker.is_small(x) => {
            maker.unary("F.interpolate", x, &[("mode", "nearest"), ("scale_factor", "(2.0,2.0)")])
        }
        _ if maker.is_small(x) => {
            maker.unary("nn.Upsample", x, &[("mode", "nearest"), ("scale_factor", "(2.0,2.0)")])
        }
        _ => maker.unary("nn.Identity", x, &[]),
    };
    Some(())
}

/// A gate per channel, computed from the mean over the image.
pub(crate) fn squeezed_and_excited(maker: &mut Maker) -> Option<()> {
    let x = maker.image()?;
    let channels = maker.fixed(x, 1);
    let mean = maker.unary("nn.AdaptiveAvgPool2d", x, &[("output_size", "(1,1)")]);
    let y = maker.conv(mean, 4, 1, 1, 0);
    let y = maker.unary("nn.ReLU", y, &[]);
    let y = maker.conv(y, channels, 1, 1, 0);
    let gate = maker.one_of(&["nn.Sigmoid", "nn.Hardsigmoid"]);
    let y = maker.unary(gate, y, &[]);
    maker.expression("mul(@0,@1)", &[x, y]);
    Some(())
}

/// Several parallel convolutions of one image.
pub(crate) fn branches(maker: &mut Maker) -> Option<()> {
    let x = maker.image()?;
    let count = maker.number(&[2, 3]);
    let parts: Vec<Value> = (0..count)
        .map(|_| {
            let channels = maker.number(&[2, 4]);
            let y = maker.conv(x, channels, 1, 1, 0);
            if maker.chance(50) { maker.unary("nn.ReLU", y, &[]) } else { y }
        })
        .collect();
    let parts: Vec<(&str, Value)> = parts.into_iter().map(|part| ("", part)).collect();
    maker.make("torch.cat", &parts, &[("dim", "1")], &[], 1);
    Some(())
}

/// The pixels of an image as tokens.
pub(crate) fn to_tokens(maker: &mut Maker) -> Option<()> {
    let x = maker.image().filter(|&x| maker.is_small(x))?;
    let flat = maker.unary("torch.flatten", x, &[("start_dim", "2"), ("end_dim", "-1")]);
    match maker.chance(50) {
        true => maker.unary("torch.permute", flat, &[("dims", "(0,2,1)")]),
        false => maker.unary("torch.transpose", flat, &[("dim0", "1"), ("dim1", "2")]),
    };
    Some(())
}

/// The mean over an image, and a linear layer.
pub(crate) fn to_vector(maker: &mut Maker) -> Option<()> {
    let x = maker.image()?;
    let flat = match maker.chance(60) {
        true => {
            let mean = maker.unary("nn.AdaptiveAvgPool2d", x, &[("output_size", "(1,1)")]);
            maker.unary("torch.flatten", mean, &[("start_dim", "1"), ("end_dim", "-1")])
        }
        false => maker.unary("torch.mean", x, &[("dim", "(2,3)"), ("keepdim", "False")]),
    };
    let y = maker.linear(flat, 8);
    if maker.chance(50) {
        maker.batch_norm("nn.BatchNorm1d", y);
    }
    Some(())
}
