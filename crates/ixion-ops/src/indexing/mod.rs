//! Reading and writing elements by index, mask or condition.

pub mod advanced;
pub mod bags;
pub mod by_index;
pub mod nonzero;
pub mod putting;
pub mod scattering;
pub mod selection;
pub mod taking;

operators! { of advanced, bags, by_index, nonzero, putting, scattering, selection, taking; category Shape }
