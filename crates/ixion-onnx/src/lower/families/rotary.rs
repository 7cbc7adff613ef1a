//! The rotation of pairs of features by angles that depend on the position.

use crate::OnnxError;
use crate::lower::Call;
use ixion_pnnx::OperandId;

/// A rotation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rotation {
    /// Whether pairs are neighbours, instead of from both halves.
    pub(super) is_interleaved: bool,
    /// The number of features that are rotated; 0 for all.
    pub(super) size: i64,
    /// The position of each step, batch×steps; if absent, the caches have a row for each of them.
    pub(super) positions: Option<OperandId>,
    /// Cosines and sines: positions×pairs, or batch×steps×pairs without positions.
    pub(super) caches: [OperandId; 2],
}

/// batch×steps×heads×size, rotated.
///
/// # Errors
/// [`OnnxError`] if the operators cannot be added.
pub(super) fn rotated(
    call: &mut Call<'_>,
    x: OperandId,
    rotation: &Rotation,
) -> Result<OperandId, OnnxError> {
    let [cos, sin] = rotation.caches;
    let (cos, sin) = (angles(call, cos, rotation)?, angles(call, sin, rotation)?);
    let part = if rotation.size > 0 { sliced(call, x, [None, Some(rotation.size), None])? } else { x };
    let [first, second] = match rotation.is_interleaved {
        true => {
            [sliced(call, part, [Some(0), None, Some(2)])?, sliced(call, part, [Some(1), None, Some(2)])?]
        }
        false => halves(call, part)?,
    };
    let real = call.expression("sub(mul(@0,@1),mul(@2,@3))", &[cos, first, sin, second])?;
    let imaginary = call.expression("add(mul(@0,@1),mul(@2,@3))", &[sin, first, cos, second])?;
    let turned = match rotation.is_interleaved {
        true => {
            let pairs = call.operator("torch.stack", &[real, imaginary], &[("dim", (-1).into())])?;
            call.emit("torch.flatten")
                .named("input", pairs)
                .param("start_dim", -2)
                .param("end_dim", -1)
                .one()?
        }
        false => call.operator("torch.cat", &[real, imaginary], &[("dim", (-1).into())])?,
    };
    if rotation.size <= 0 {
        return Ok(turned);
    }
    let rest = sliced(call, x, [Some(rotation.size), None, None])?;
    call.operator("torch.cat", &[turned, rest], &[("dim", (-1).into())])
}

/// The cosines or sines of each step, with an axis for the heads.
fn angles(call: &mut Call<'_>, cache: OperandId, rotation: &Rotation) -> Result<OperandId, OnnxError> {
    let rows = match rotation.positions {
        Some(positions) => call.emit("F.embedding").named("input", positions).named("weight", cache).one()?,
        None => cache,
    };
    call.emit("torch.unsqueeze").named("input", rows).param("dim", 2).one()
}

fn halves(call: &mut Call<'_>, x: OperandId) -> Result<[OperandId; 2], OnnxError> {
    let halves = call.emit("torch.chunk").named("input", x).param("chunks", 2).param("dim", -1).many(2)?;
    let pair = <[OperandId; 2]>::try_from(halves);
    pair.map_err(|_| call.error("expected two halves"))
}

/// A slice of the last axis: start, end and step.
pub(super) fn sliced(
    call: &mut Call<'_>,
    x: OperandId,
    [start, end, step]: [Option<i64>; 3],
) -> Result<OperandId, OnnxError> {
    let emit = call.emit("Tensor.slice").named("input", x).param("dim", -1);
    emit.param_if("start", start).param_if("end", end).param_if("step", step).one()
}
