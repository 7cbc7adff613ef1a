//! Reading and writing elements by index, mask or condition.

pub mod advanced;
pub mod by_index;
pub mod nonzero;
pub mod scattering;
pub mod selection;
pub mod taking;

operators! { of advanced, by_index, nonzero, scattering, selection, taking; category Shape }
