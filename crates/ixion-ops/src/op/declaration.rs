//! The macro that declares operators.

/// Declares an operator: a struct whose fields are the operator's parameters and weights.
///
/// Each field states its type and, after `=`, the default that PyTorch uses if the key is absent; a field without a default is
/// required in the file. `as "key"` reads a key that is not a valid Rust identifier. The macro generates the struct, with
/// `Debug`, `Clone` and public fields, and its [`FromOperator`](crate::op::FromOperator) implementation. The semantics
/// ([`Layer`](crate::op::Layer)) and the computation ([`CpuLayer`](crate::op::CpuLayer)) are implemented by hand.
/// [`field_inputs`](crate::op::FromOperator::field_inputs) is the number of inputs that the fields take, for
/// [`num_inputs`](crate::op::Layer::num_inputs).
///
/// | type of a field | in the file |
/// |---|---|
/// | `bool`, `i64`, `usize`, `f64`, `String`, [`DType`](ixion_tensor::DType) | `True`, `-1`, `3`, `0.5`, `reflect`, `torch.float` |
/// | `Vec<i64>`, `Vec<f64>` | `(1,2)`; a single number is a list of one |
/// | `[usize; N]`, [`PerAxis`](crate::support::choices::PerAxis) | `(3,3)`; a single number applies to all axes |
/// | `Option<T>` of these | `None` or a value |
/// | [`Weight`](crate::op::Weight), `Option<Weight>` | an attribute `@weight=…` or an input `$weight=…` |
/// | [`InputIndex`](crate::support::arguments::InputIndex) | a second tensor, an input `$other=…`; its `.0` is the position |
/// | [`SpatialAxes`](crate::op::SpatialAxes) | nothing: the number in the type, as in `nn.MaxPool2d` |
/// | [`State<T>`](crate::op::State) | nothing: state of the layer |
///
/// For other types, implement [`FromParameter`](crate::op::FromParameter). After the struct, `validate |this| { … }` checks
/// constraints that the types cannot express and returns a [`Result<()>`](crate::op::Result).
///
/// ```
/// ixion_ops::operator! {
///     /// `torch.nn.Threshold`: x where x is above the threshold, else a constant.
///     pub struct Threshold for "nn.Threshold", "F.threshold" {
///         /// The threshold.
///         threshold: f64,
///         /// The constant.
///         value: f64 = 0.0,
///     }
///     validate |this| {
///         if this.threshold.is_nan() {
///             return Err(ixion_ops::op::LayerError::invalid("threshold", "nan", "it must be a number"));
///         }
///         Ok(())
///     }
/// }
/// use ixion_ops::op::FromOperator;
/// assert_eq!(Threshold::TYPES, ["nn.Threshold", "F.threshold"]);
/// assert_eq!(Threshold::FIELDS[1].default_in_file().as_deref(), Some("0.0"));
/// ```
#[macro_export]
macro_rules! operator {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident for $($op_type:literal),+ $(,)? {
            $($(#[doc = $field_doc:literal])* $field:ident $(as $key:literal)? : $type:ty $(= $default:expr)?),* $(,)?
        }
        $(validate |$this:ident| $validate:block)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone)]
        $vis struct $name {
            $($(#[doc = $field_doc])* pub $field: $type,)*
        }

        impl $crate::op::FromOperator for $name {
            const TYPES: &'static [&'static str] = &[$($op_type),+];
            const DOC: &'static str = concat!($($doc, "\n"),*);
            const VALIDATES: bool = $crate::operator!(@validates $($this)?);
            const FIELDS: &'static [$crate::op::Field] = &[$($crate::op::Field {
                key: $crate::operator!(@key $field $($key)?),
                kind: <$type as $crate::op::FieldValue>::KIND,
                default: $crate::operator!(@default $type $(, $default)?),
                doc: concat!($($field_doc, "\n"),*),
                is_parameter: <$type as $crate::op::FieldValue>::IS_PARAMETER,
            }),*];

            // Hundreds of operators are read this way, and `?` would compile to twice as much.
            #[allow(unused_variables, clippy::question_mark)]
            fn from_operator(
                reader: &mut $crate::op::OperatorReader<'_>,
            ) -> $crate::op::Result<Self> {
                Ok(Self {
                    $($field: $crate::operator!(@read reader, $type, $crate::operator!(@key $field $($key)?) $(, $default)?),)*
                })
            }

            #[inline]
            fn field_inputs(&self) -> usize {
                0 $(+ <$type as $crate::op::FieldValue>::num_inputs(&self.$field))*
            }

            #[inline]
            fn written(&self) -> Vec<(&'static str, $crate::op::Written)> {
                vec![$((
                    $crate::operator!(@key $field $($key)?),
                    <$type as $crate::op::FieldValue>::written(&self.$field),
                )),*]
            }

            $(fn validate(&self) -> $crate::op::Result<()> {
                let $this = self;
                $validate
            })?
        }
    };
    (@validates) => { false };
    (@validates $this:ident) => { true };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@default $type:ty) => { None };
    (@default $type:ty, $default:expr) => {
        Some($crate::op::FieldDefault::Value({
            // A function, because a pointer to a closure would be one more function.
            fn written_default() -> $crate::op::Written {
                let default: $type = $default;
                $crate::op::FieldValue::written(&default)
            }
            written_default
        }))
    };
    (@read $reader:ident, $type:ty, $key:expr) => {
        match <$type as $crate::op::FieldValue>::require($reader, $key) {
            Ok(value) => value,
            Err(error) => return Err(error),
        }
    };
    (@read $reader:ident, $type:ty, $key:expr, $default:expr) => {
        match <$type as $crate::op::FieldValue>::read($reader, $key) {
            Ok(Some(value)) => value,
            Ok(None) => $default,
            Err(error) => return Err(error),
        }
    };
}
