//! Identity matrices, and the indices of triangles of matrices.

use super::counted::{Integer, counted_layers, integer};
use crate::op::{LayerError, Result, TensorMeta};
use ixion_tensor::{DType, Dim, Layout, Limits, Shape, Tensor, TensorView};
use std::ops::Range;

crate::operator! {
    /// `torch.eye`: an n×m matrix with ones on its diagonal and zeros elsewhere.
    pub struct Eye for "aten::eye" {
        /// The number of rows.
        n: Integer,
        /// The number of columns; that of the rows by default.
        m: Option<Integer> = None,
        /// The element type; f32 by default.
        dtype: Option<DType> = None,
    }
}

crate::operator! {
    /// `torch.tril_indices`: the rows and the columns of the elements on and below a diagonal of a matrix, 2×N, row by row.
    pub struct TrilIndices for "aten::tril_indices" {
        /// The number of rows of the matrix.
        row: Integer,
        /// The number of columns of the matrix.
        col: Integer,
        /// The diagonal: positive above the main diagonal, negative below it.
        offset: Integer = integer(0),
        /// The element type, i64 or i32; i64 by default.
        dtype: Option<DType> = None,
    }
}

crate::operator! {
    /// `torch.triu_indices`: the rows and the columns of the elements on and above a diagonal of a matrix, 2×N, row by row.
    pub struct TriuIndices for "aten::triu_indices" {
        /// The number of rows of the matrix.
        row: Integer,
        /// The number of columns of the matrix.
        col: Integer,
        /// The diagonal: positive above the main diagonal, negative below it.
        offset: Integer = integer(0),
        /// The element type, i64 or i32; i64 by default.
        dtype: Option<DType> = None,
    }
}

impl Eye {
    fn dtype(&self) -> DType {
        self.dtype.unwrap_or(DType::F32)
    }

    fn meta(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        let rows = self.n.length("n", inputs)?;
        let columns = match &self.m {
            Some(columns) => columns.length("m", inputs)?,
            None => rows.clone(),
        };
        Ok(TensorMeta::new(self.dtype(), [rows, columns]))
    }

    fn tensor(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Tensor> {
        let (rows, dtype) = (self.n.count("n", inputs)?, self.dtype());
        let columns = match &self.m {
            Some(columns) => columns.count("m", inputs)?,
            None => rows,
        };
        let bytes = (rows as u64).saturating_mul(columns as u64).saturating_mul(dtype.size() as u64);
        limits.check_tensor("an identity matrix", bytes)?;
        let mut matrix = Tensor::zeros(dtype, &[rows, columns])?;
        let len = rows.min(columns);
        if len > 0 {
            let diagonal = Layout::strided(Shape::new(&[len])?, &[columns.saturating_add(1)], 0)?;
            let mut diagonal = matrix.view_mut()?.with_layout(diagonal)?;
            diagonal.copy_from(&Tensor::ones(dtype, &[len])?.view())?;
        }
        Ok(matrix)
    }
}

/// The part of a matrix on one side of a diagonal, including the diagonal.
#[derive(Debug, Clone, Copy)]
struct Triangle {
    rows: i64,
    columns: i64,
    offset: i64,
    is_lower: bool,
}

impl Triangle {
    /// The rows that have elements in the triangle.
    fn rows(self) -> Range<i64> {
        if self.columns == 0 {
            0..0
        } else if self.is_lower {
            self.offset.saturating_neg().clamp(0, self.rows)..self.rows
        } else {
            0..self.columns.saturating_sub(self.offset).clamp(0, self.rows)
        }
    }

    /// The columns of a row that are in the triangle.
    fn columns(self, row: i64) -> Range<i64> {
        let diagonal = row.saturating_add(self.offset);
        if self.is_lower {
            0..diagonal.saturating_add(1).clamp(0, self.columns)
        } else {
            diagonal.clamp(0, self.columns)..self.columns
        }
    }

    /// The number of elements.
    fn count(self) -> i64 {
        let (rows, columns) = (i128::from(self.rows), i128::from(self.columns));
        // The last diagonal that belongs to the lower triangle.
        let offset = i128::from(self.offset) - i128::from(!self.is_lower);
        // The rows of the lower triangle grow by one element each until they are full.
        let first = (-offset).clamp(0, rows);
        let full = (columns - offset - 1).clamp(first, rows);
        let growing = (full - first) * (first + full + 1 + 2 * offset) / 2;
        let below = growing + (rows - full) * columns;
        let count = if self.is_lower { below } else { rows * columns - below };
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// The rows and the columns of all elements.
    fn indices(self, limits: &Limits) -> Result<Tensor> {
        let count = usize::try_from(self.count()).unwrap_or(0);
        limits.check_tensor("the indices of a triangle", (count as u64).saturating_mul(16))?;
        let mut indices = Tensor::zeros(DType::I64, &[2, count])?;
        let mut view = indices.view_mut()?;
        let (rows, columns) = view.slice::<i64>()?.split_at_mut(count);
        let places = self.rows().flat_map(|row| self.columns(row).map(move |column| (row, column)));
        for ((to_row, to_column), (row, column)) in rows.iter_mut().zip(columns).zip(places) {
            (*to_row, *to_column) = (row, column);
        }
        Ok(indices)
    }
}

macro_rules! triangles {
    ($($name:ident is_lower $is_lower:literal;)*) => {
        $(
            impl $name {
                fn dtype(&self) -> Result<DType> {
                    match self.dtype.unwrap_or(DType::I64) {
                        dtype @ (DType::I64 | DType::I32) => Ok(dtype),
                        other => Err(LayerError::dtype("`dtype`", "i64 or i32", other)),
                    }
                }

                fn meta(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
                    let (rows, columns) = (self.row.length("row", inputs)?, self.col.length("col", inputs)?);
                    let offset = self.offset.dim(inputs)?;
                    let count = match (rows.fixed(), columns.fixed(), offset.fixed()) {
                        (Some(rows), Some(columns), Some(offset)) => {
                            Dim::Fixed(Triangle { rows, columns, offset, is_lower: $is_lower }.count())
                        }
                        _ => Dim::fresh("counted"),
                    };
                    Ok(TensorMeta::new(self.dtype()?, [Dim::Fixed(2), count]))
                }

                fn tensor(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Tensor> {
                    let side = |key, len: &Integer| {
                        let count = len.count(key, inputs)?;
                        Ok::<_, LayerError>(i64::try_from(count).unwrap_or(i64::MAX))
                    };
                    let (rows, columns) = (side("row", &self.row)?, side("col", &self.col)?);
                    let offset = self.offset.value(inputs)?;
                    let triangle = Triangle { rows, columns, offset, is_lower: $is_lower };
                    Ok(triangle.indices(limits)?.cast(self.dtype()?)?)
                }
            }
        )*

        counted_layers!($($name),*);
    };
}

triangles! {
    TrilIndices is_lower true;
    TriuIndices is_lower false;
}

counted_layers!(Eye);

operators! {
    Eye, TrilIndices, TriuIndices;
    overload "aten::eye"(n, dtype, layout, device, pin_memory) of 5,
        "aten::eye"(n, m, dtype, layout, device, pin_memory),
        "aten::tril_indices"(row, col, offset, dtype, layout, device, pin_memory),
        "aten::triu_indices"(row, col, offset, dtype, layout, device, pin_memory)
}

#[cfg(test)]
mod tests {
    use super::Triangle;
    use crate::op::{LayerError, TensorMeta};
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::{DType, Dim, Limits};

    #[test]
    fn identity_matrices() {
        let wide = operator("aten::eye", &[("n", "2"), ("m", "3")]).run_one(&[]).unwrap();
        assert_eq!(wide.to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let square = operator("aten::eye", &[("n", "2"), ("dtype", "torch.bool")]).run_one(&[]).unwrap();
        assert_eq!(square.to_vec::<bool>().unwrap(), [true, false, false, true]);
        let empty = operator("aten::eye", &[("n", "2"), ("m", "0")]).run_one(&[]).unwrap();
        assert_eq!(empty.shape().dims(), [2, 0]);
        let tall = operator("aten::eye", &[("m", "1")]).with_names(&["n"]);
        let column = tall.run_one(&[&tensor(&[], &[3i64])]).unwrap();
        assert_eq!(column.to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0]);
        let of_columns = operator("aten::eye", &[("n", "1")]).with_names(&["m"]);
        assert_eq!(
            of_columns.run_one(&[&tensor(&[], &[2i64])]).unwrap().to_vec::<f32>().unwrap(),
            [1.0, 0.0]
        );
        let n = TensorMeta::new(DType::I64, [0; 0]).with_values(vec![Dim::symbol("n")]);
        let inferred = operator("aten::eye", &[]).with_names(&["n"]).infer(&[n]).unwrap();
        assert_eq!(inferred[0].to_string(), "n×n f32");
        assert!(operator("aten::eye", &[("n", "-1")]).run(&[]).is_err());
        let limits = Limits { max_tensor_bytes: 1000, ..Limits::default() };
        let large = operator("aten::eye", &[("n", "4294967296")]).create(0).unwrap();
        assert!(matches!(large.constant(&limits), Err(LayerError::Limit(_))));
        operator("aten::eye", &[]).with_names(&["n"]).survives(1);
    }

    #[test]
    fn triangles() {
        let indices = |op_type, row, col, offset| {
            let found = operator(op_type, &[("row", row), ("col", col), ("offset", offset)]).run_one(&[]);
            found.unwrap().to_vec::<i64>().unwrap()
        };
        assert_eq!(indices("aten::tril_indices", "3", "2", "1"), [0, 0, 1, 1, 2, 2, 0, 1, 0, 1, 0, 1]);
        assert_eq!(indices("aten::triu_indices", "3", "2", "-1"), [0, 0, 1, 1, 2, 0, 1, 0, 1, 1]);
        assert!(indices("aten::tril_indices", "2", "3", "-5").is_empty());
        assert!(indices("aten::triu_indices", "9223372036854775807", "0", "0").is_empty());
        let narrow = [("row", "2"), ("col", "2"), ("dtype", "torch.int")];
        let narrow = operator("aten::triu_indices", &narrow).run_one(&[]).unwrap();
        assert_eq!((narrow.dtype(), narrow.to_vec::<i32>().unwrap()), (DType::I32, vec![0, 0, 1, 0, 1, 1]));
        let refused = |params: &[(&str, &str)]| {
            assert!(operator("aten::tril_indices", params).run(&[]).is_err(), "{params:?}");
        };
        refused(&[("row", "-1"), ("col", "2")]);
        refused(&[("row", "2"), ("col", "2"), ("dtype", "torch.float")]);
        refused(&[("row", "9223372036854775807"), ("col", "9223372036854775807")]);
        let sides = operator("aten::tril_indices", &[]).with_names(&["row", "col"]);
        let found = sides.run_one(&[&tensor(&[], &[2i64]), &tensor(&[], &[2i64])]).unwrap();
        assert_eq!(found.to_vec::<i64>().unwrap(), [0, 1, 1, 0, 0, 1]);
        sides.survives(2);
    }

    #[test]
    fn triangles_are_counted_without_listing_them() {
        for (rows, columns) in [(0, 0), (1, 4), (4, 1), (3, 3), (5, 2), (2, 5), (3, 0), (0, 3)] {
            for offset in -7..=7 {
                for is_lower in [true, false] {
                    let triangle = Triangle { rows, columns, offset, is_lower };
                    let is_within = |row: i64, column: i64| match is_lower {
                        true => column <= row + offset,
                        false => column >= row + offset,
                    };
                    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
                    let wanted = places.filter(|&(row, column)| is_within(row, column)).count();
                    assert_eq!(triangle.count(), wanted as i64, "{triangle:?}");
                    let listed: i64 = triangle.rows().map(|row| triangle.columns(row).count() as i64).sum();
                    assert_eq!(listed, wanted as i64, "{triangle:?}");
                }
            }
        }
        let huge = Triangle { rows: i64::MAX, columns: i64::MAX, offset: i64::MIN, is_lower: false };
        assert_eq!(huge.count(), i64::MAX);
    }
}
