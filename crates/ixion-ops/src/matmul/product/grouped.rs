//! Products of groups of rows or columns with a matrix each, as in a mixture of experts.

use super::Product;
use crate::op::{Cost, CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::arguments::InputIndex;
use crate::support::float;
use crate::support::number::Computation;
use crate::support::views::fill_with_zeros;
use ixion_tensor::{DType, Dim, TensorView};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.functional.grouped_mm`: the products of groups, each of which ends before one of G offsets and begins where
    /// the one before ends. Groups of the rows of an m×k matrix and G×k×n matrices give m×n; G×m×k matrices and groups of the
    /// columns of a k×n matrix give m×n; groups of the columns of an m×k matrix and of the rows of a k×n matrix give G×m×n.
    /// Without offsets, G×m×k and G×k×n matrices give G×m×n. What is behind the last group is 0.
    pub struct GroupedMm for "aten::_grouped_mm" {
        /// The right factor.
        mat2: InputIndex,
        /// The ends of the groups, a vector of i32.
        offs: Option<Weight> = None,
        /// Must be `None`: PyTorch does not support it yet.
        bias: Option<Weight> = None,
        /// The element type of the output; must be that of the input.
        dtype: Option<DType> = None,
    }
    validate |layer| {
        match layer.bias {
            Some(_) => Err(LayerError::Unsupported("a bias of grouped products; expected `None`".to_owned())),
            None => Ok(()),
        }
    }
}

/// What the groups divide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Divided {
    /// The rows of the left factor.
    Rows,
    /// The columns of the right factor.
    Columns,
    /// The columns of the left factor, and the rows of the right one.
    Inner,
}

impl Divided {
    /// The divided axis, given the numbers of axes of both factors.
    fn of(left: usize, right: usize) -> Option<Self> {
        match (left, right) {
            (2, 3) => Some(Self::Rows),
            (3, 2) => Some(Self::Columns),
            (2, 2) => Some(Self::Inner),
            _ => None,
        }
    }
}

/// The product of two matrices, or of equally many.
fn product(rank: usize) -> Product {
    Product::of([0, 1], [rank; 2])
}

/// One matrix of several.
fn matrix(meta: &TensorMeta) -> TensorMeta {
    meta.with_dims(meta.dims().iter().skip(1).cloned())
}

/// Checks that there is a matrix for each group.
fn check_count(count: &Dim, matrices: &TensorMeta) -> Result<()> {
    match matrices.dims().first() {
        Some(found) if found.differs(count) => {
            Err(LayerError::shape("a factor", format!("{count} matrices, one for each group"), matrices))
        }
        _ => Ok(()),
    }
}

/// The ends of the groups, in ascending order and at most `len`.
fn ends(offs: &TensorView<'_>, len: usize) -> Result<Vec<usize>> {
    let (mut ends, mut least) = (Vec::new(), 0);
    for end in offs.cast(DType::I64)?.to_vec::<i64>()? {
        match usize::try_from(end) {
            Ok(found) if (least..=len).contains(&found) => {
                ends.push(found);
                least = found;
            }
            _ => return Err(LayerError::shape("an offset", format!("{least} to {len}"), end)),
        }
    }
    Ok(ends)
}

impl Layer for GroupedMm {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (left, right) = (&inputs[0], &inputs[self.mat2.0]);
        float::check("the input", left)?;
        if let Some(dtype) = self.dtype.filter(|dtype| *dtype != left.dtype()) {
            return Err(LayerError::invalid("dtype", dtype, format!("it must be {}", left.dtype())));
        }
        let Some(offs) = &self.offs else {
            return product(3).infer(&[left.clone(), right.clone()]);
        };
        let offs = offs.meta(inputs)?;
        let [count] = offs.dims() else {
            return Err(LayerError::shape("the offsets", "a vector", &offs));
        };
        if !matches!(offs.dtype(), DType::I32 | DType::I64) {
            return Err(LayerError::dtype("the offsets", "i32", offs.dtype()));
        }
        match Divided::of(left.rank(), right.rank()) {
            Some(Divided::Rows) => {
                check_count(count, right)?;
                product(2).infer(&[left.clone(), matrix(right)])
            }
            Some(Divided::Columns) => {
                check_count(count, left)?;
                product(2).infer(&[matrix(left), right.clone()])
            }
            Some(Divided::Inner) => {
                let each = product(2).infer(&[left.clone(), right.clone()])?;
                let dims =
                    |each: &TensorMeta| each.with_dims([count].into_iter().chain(each.dims()).cloned());
                Ok(each.iter().map(dims).collect())
            }
            None => {
                let found = format!("{left} and {right}");
                Err(LayerError::shape("the factors", "2 or 3 axes each, not both 3 with offsets", found))
            }
        }
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let macs = || -> Option<u64> {
            let (left, right) = (inputs.first()?, inputs.get(self.mat2.0)?);
            // Each element of the undivided factor is read once, and multiplied by those of a row or column of the other.
            let (all, other) = match Divided::of(left.rank(), right.rank()) {
                Some(Divided::Columns) => (right, left.dims().get(1)?),
                _ => (left, right.dims().last()?),
            };
            u64::try_from((all.num_elements() * other.clone()).fixed()?).ok()
        };
        Cost::of_moving(inputs, outputs).with_macs(macs().unwrap_or(0))
    }
}

impl CpuLayer for GroupedMm {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (left, right, limits) = (io.inputs[0], io.inputs[self.mat2.0], io.context.limits());
        let output = &mut io.outputs[0];
        let divided = Divided::of(left.shape().rank(), right.shape().rank());
        let (Some(offs), Some(divided)) = (&self.offs, divided) else {
            return product(3).run(&[left, right], output, limits);
        };
        let len = match divided {
            Divided::Rows => left.shape()[0],
            Divided::Columns | Divided::Inner => right.shape()[usize::from(divided == Divided::Columns)],
        };
        let ends = ends(&offs.view(io.inputs)?, len)?;
        let starts = [0].into_iter().chain(ends.iter().copied());
        let groups: Vec<(usize, usize)> = starts.zip(ends.iter().copied()).collect();
        if ends.last() != Some(&len) || groups.iter().any(|(start, end)| start == end) {
            fill_with_zeros(output)?;
        }
        for (group, (start, end)) in groups.into_iter().enumerate().filter(|(_, (start, end))| start < end) {
            let part = |view: &TensorView<'_>, axis| view.layout().narrow(axis, start, end - start);
            let (a, b, to) = match divided {
                Divided::Rows => {
                    let to = output.layout().narrow(0, start, end - start)?;
                    (part(&left, 0)?, right.layout().select(0, group)?, to)
                }
                Divided::Columns => {
                    let to = output.layout().narrow(1, start, end - start)?;
                    (left.layout().select(0, group)?, part(&right, 1)?, to)
                }
                Divided::Inner => (part(&left, 1)?, part(&right, 0)?, output.layout().select(0, group)?),
            };
            let factors = [left.with_layout(a)?, right.with_layout(b)?];
            product(2).run(&factors, &mut output.reborrow().with_layout(to)?, limits)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::op::TensorMeta;
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::{DType, Dim, Tensor};

    fn halves(shape: &[usize], factor: f64, added: f64) -> Tensor {
        let values = counting(DType::F64, shape).to_vec::<f64>().unwrap();
        tensor(shape, &values.iter().map(|x| (x * factor + added) as f32).collect::<Vec<_>>())
    }

    fn grouped(left: &Tensor, right: &Tensor, ends: &[i32]) -> crate::op::Result<Tensor> {
        let ends = tensor(&[ends.len()], ends);
        let layer = operator("aten::_grouped_mm", &[]).with_names(&["input", "mat2", "offs"]);
        layer.run_one(&[left, right, &ends])
    }

    /// PyTorch's results.
    #[test]
    fn groups_are_multiplied_by_their_matrices() {
        let (rows, matrices) = (halves(&[4, 4], 1.0, -8.0), halves(&[2, 4, 4], 0.5, -8.0));
        assert_close(&grouped(&rows, &matrices, &[1, 4]).unwrap(), &[4, 4], ROWS);
        let mut both = rows.to_vec::<f32>().unwrap();
        both.extend(both.clone().iter().map(|x| x / 2.0));
        let (both, columns) = (tensor(&[2, 4, 4], &both), halves(&[4, 8], 0.5, -8.0));
        assert_close(&grouped(&both, &columns, &[4, 8]).unwrap(), &[4, 8], COLUMNS);
        let square = columns.narrow(1, 0, 4).unwrap();
        assert_close(&grouped(&rows, &square, &[1, 4]).unwrap(), &[2, 4, 4], INNER);
        let half = [&rows, &matrices].map(|tensor| tensor.cast(DType::Bf16).unwrap());
        assert_close(&grouped(&half[0], &half[1], &[1, 4]).unwrap(), &[4, 4], ROWS);
        let layer = operator("aten::_grouped_mm", &[("offs", "None"), ("dtype", "torch.float")]);
        let whole = layer.with_names(&["input", "mat2"]).run_one(&[&both, &matrices]).unwrap();
        let batches = operator("torch.bmm", &[]).with_names(&["input", "mat2"]);
        assert_eq!(whole, batches.run_one(&[&both, &matrices]).unwrap());
    }

    #[test]
    fn groups_may_be_empty_and_need_not_reach_the_end() {
        let (rows, matrices) = (halves(&[4, 4], 1.0, -8.0), halves(&[2, 4, 4], 0.5, -8.0));
        let none = [0.0; 8];
        let wanted = [&ROWS[..4], &[0.0; 12]].concat();
        assert_close(&grouped(&rows, &matrices, &[1, 1]).unwrap(), &[4, 4], &wanted);
        let inner = grouped(&rows, &matrices.select(0, 0).unwrap(), &[0, 0]).unwrap();
        assert_close(&inner, &[2, 4, 4], &[none, none, none, none].concat());
        for ends in [[2, 1], [0, 5], [-1, 4]] {
            assert!(grouped(&rows, &matrices, &ends).unwrap_err().to_string().contains("offset"), "{ends:?}");
        }
    }

    #[test]
    fn odd_inputs() {
        let layer = operator("aten::_grouped_mm", &[]).with_names(&["input", "mat2", "offs"]);
        let meta = |dims: &[usize]| TensorMeta::new(DType::F32, dims.iter().copied());
        let (offs, symbol) = (TensorMeta::new(DType::I32, [2usize]), Dim::symbol("n"));
        let rows = TensorMeta::new(DType::F32, [symbol, Dim::from(4usize)]);
        let output = layer.infer(&[rows.clone(), meta(&[2, 4, 5]), offs.clone()]).unwrap();
        assert_eq!(output[0].to_string(), "n×5 f32");
        let refused =
            [(meta(&[3, 4]), meta(&[3, 4, 5])), (rows, meta(&[2, 3, 5])), (meta(&[4]), meta(&[4, 2]))];
        for (left, right) in refused {
            assert!(layer.infer(&[left, right, offs.clone()]).is_err());
        }
        let biased = operator("aten::_grouped_mm", &[]).with_names(&["input", "mat2", "offs", "bias"]);
        assert!(biased.create(4).unwrap_err().to_string().contains("bias"));
        layer.survives(3);
        operator("aten::_grouped_mm", &[]).with_names(&["input", "mat2"]).survives(2);
    }

    const ROWS: &[f64] = &[
        140.0, 127.0, 114.0, 101.0, -20.0, -25.0, -30.0, -35.0, 28.0, 31.0, 34.0, 37.0, 76.0, 87.0, 98.0,
        109.0,
    ];
    const COLUMNS: &[f64] = &[
        72.0, 59.0, 46.0, 33.0, 10.0, 3.5, -3.0, -9.5, 40.0, 35.0, 30.0, 25.0, 10.0, 7.5, 5.0, 2.5, 8.0,
        11.0, 14.0, 17.0, 10.0, 11.5, 13.0, 14.5, -24.0, -13.0, -2.0, 9.0, 10.0, 15.5, 21.0, 26.5,
    ];
    const INNER: &[f64] = &[
        64.0, 60.0, 56.0, 52.0, 32.0, 30.0, 28.0, 26.0, 0.0, 0.0, 0.0, 0.0, -32.0, -30.0, -28.0, -26.0, 8.0,
        -1.0, -10.0, -19.0, 8.0, 5.0, 2.0, -1.0, 8.0, 11.0, 14.0, 17.0, 8.0, 17.0, 26.0, 35.0,
    ];
}
