//! The input tensors of a model: read from files, or random.

use super::files::{Kind, Source};
use super::picture::{Preparer, Shot};
use super::port::{Port, ports, position, too_many};
use crate::cli::{Failure, list};
use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::pnnx::Dim;
use ixion::tensor::{DType, Shape, Tensor, TensorError};
use ixion::vision::ModelCard;
use std::collections::BTreeMap;
use std::path::Path;

/// Pairs of input name and tensor, in the order of the model's inputs.
pub(in crate::cli) type Inputs = Vec<(String, Tensor)>;

/// Reads all inputs and assigns them to the model's inputs. Also returns the images among them. With a seed, missing inputs are
/// random.
pub(in crate::cli) fn gather(
    sources: &[Source],
    graph: &RuntimeGraph,
    card: Option<&ModelCard>,
    seed: Option<u64>,
    limits: &Limits,
) -> Result<(Inputs, Vec<Shot>), Failure> {
    let (tensors, shots) = (BTreeMap::new(), Vec::new());
    let mut gathering = Gathering { ports: ports(graph), tensors, shots, card, limits };
    let (named, unnamed): (Vec<&Source>, Vec<&Source>) = sources.iter().partition(|source| has_names(source));
    named.iter().try_for_each(|source| gathering.take_named(source))?;
    unnamed.iter().try_for_each(|source| gathering.take_next(source, unnamed.len()))?;
    let shots = std::mem::take(&mut gathering.shots);
    Ok((gathering.finish(seed)?, shots))
}

/// The model's only input, if all sources are images for it.
pub(super) fn port_of_pictures(sources: &[Source], graph: &RuntimeGraph) -> Option<Port> {
    let [port] = <[Port; 1]>::try_from(ports(graph)).ok()?;
    let is_for =
        |source: &Source| source.is_picture() && source.name.as_ref().is_none_or(|name| port.is_called(name));
    (!sources.is_empty() && sources.iter().all(is_for)).then_some(port)
}

fn has_names(source: &Source) -> bool {
    source.name.is_some() || source.kind == Kind::Npz(None)
}

struct Gathering<'a> {
    ports: Vec<Port>,
    /// The tensors read so far, by the position of the input.
    tensors: BTreeMap<usize, Tensor>,
    /// The images among them.
    shots: Vec<Shot>,
    card: Option<&'a ModelCard>,
    limits: &'a Limits,
}

impl Gathering<'_> {
    fn take_named(&mut self, source: &Source) -> Result<(), Failure> {
        let path = &source.path;
        if let Some(name) = &source.name {
            let at = position(&self.ports, name)?;
            let tensor = self.read(source, at)?;
            return self.put(at, tensor);
        }
        let arrays = load_npz(path, self.limits)?;
        let is_called = |ports: &[Port], name: &str| ports.iter().any(|port| port.is_called(name));
        let has_names = arrays.iter().any(|(name, _)| place(name).is_some() && is_called(&self.ports, name));
        for (name, tensor) in arrays {
            let at = match place(&name) {
                Some(Place::Output) if !is_called(&self.ports, &name) => continue,
                Some(Place::Input(at)) if !has_names && at < self.ports.len() => at,
                Some(Place::Input(at)) if !has_names => {
                    return Err(too_many(&self.ports, at.saturating_add(1)));
                }
                _ => {
                    let advice =
                        format!("--input NAME={}:{name} gives this array to the input NAME", path.display());
                    position(&self.ports, &name).map_err(|failure| failure.advise(advice))?
                }
            };
            self.put(at, tensor)?;
        }
        Ok(())
    }

    fn take_next(&mut self, source: &Source, given: usize) -> Result<(), Failure> {
        let free = (0..self.ports.len()).find(|at| !self.tensors.contains_key(at));
        let Some(at) = free else {
            return Err(too_many(&self.ports, given.max(self.ports.len() + 1)));
        };
        let tensor = self.read(source, at)?;
        self.put(at, tensor)
    }

    fn put(&mut self, at: usize, tensor: Tensor) -> Result<(), Failure> {
        match self.tensors.insert(at, tensor) {
            None => Ok(()),
            Some(_) => {
                let name = self.ports.get(at).map(|port| port.name.as_str()).unwrap_or_default();
                Err(Failure::unusable(format!("input `{name}` was given twice")))
            }
        }
    }

    fn read(&mut self, source: &Source, at: usize) -> Result<Tensor, Failure> {
        let Some(port) = self.ports.get(at) else {
            return Err(Failure::unusable("no such input"));
        };
        let tensor = match &source.kind {
            Kind::Npy => Tensor::load_npy(&source.path, self.limits),
            Kind::Npz(Some(entry)) => Tensor::load_npz_entry(&source.path, entry, self.limits),
            Kind::Npz(None) => return only_array(&source.path, load_npz(&source.path, self.limits)?),
            Kind::Csv => load_csv(&source.path, port, self.limits),
            Kind::Picture => {
                let preparer = Preparer::new(&source.path, port, self.card, self.limits)?;
                let (tensor, shot) = preparer.load(&source.path)?;
                self.shots.push(shot);
                return Ok(tensor);
            }
        };
        tensor.map_err(Failure::unusable)
    }

    /// All inputs, in the order of the model's inputs.
    fn finish(mut self, seed: Option<u64>) -> Result<Inputs, Failure> {
        let missing: Vec<usize> = (0..self.ports.len()).filter(|at| !self.tensors.contains_key(at)).collect();
        match seed {
            Some(seed) => {
                for at in missing {
                    let Some(port) = self.ports.get(at) else { continue };
                    let tensor = random_input(port, seed.wrapping_add(at as u64), self.limits)?;
                    self.tensors.insert(at, tensor);
                }
            }
            None if missing.is_empty() => {}
            None => {
                let missing = missing.iter().filter_map(|&at| self.ports.get(at)).map(Port::describe);
                let message = format!("missing inputs: {}", list(missing));
                return Err(
                    Failure::unusable(message).advise("--input [NAME=]FILE gives one input; repeat it")
                );
            }
        }
        Ok(self.ports.into_iter().map(|port| port.name).zip(self.tensors.into_values()).collect())
    }
}

/// The place of an array among a model's inputs or outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Input(usize),
    Output,
}

/// The place of an array by its name, if that is `in_N` or `out_N`, as in the files that `ixion verify` reads.
fn place(name: &str) -> Option<Place> {
    let (stem, number) = name.rsplit_once('_')?;
    // A number has no sign.
    let number = Some(number).filter(|number| number.bytes().all(|digit| digit.is_ascii_digit()))?;
    let number = number.parse().ok()?;
    match stem {
        "in" => Some(Place::Input(number)),
        "out" => Some(Place::Output),
        _ => None,
    }
}

fn load_npz(path: &Path, limits: &Limits) -> Result<Vec<(String, Tensor)>, Failure> {
    Tensor::load_npz(path, limits).map_err(Failure::unusable)
}

/// The only array of an archive. Fails if there are several or none.
fn only_array(path: &Path, arrays: Vec<(String, Tensor)>) -> Result<Tensor, Failure> {
    let names: Vec<String> = arrays.iter().map(|(name, _)| name.clone()).collect();
    match <[_; 1]>::try_from(arrays) {
        Ok([(_, tensor)]) => Ok(tensor),
        Err(_) => {
            let path = path.display();
            let message = format!(
                "{path}: expected 1 array, got {}: {}; select one by {path}:NAME",
                names.len(),
                names.join(", ")
            );
            Err(Failure::unusable(message))
        }
    }
}

/// A table in the element type of the input, reshaped to the input's shape if the number of elements fits.
fn load_csv(path: &Path, port: &Port, limits: &Limits) -> Result<Tensor, TensorError> {
    let table = match port.dtype {
        Some(DType::F64) => Tensor::load_csv::<f64>(path, limits)?,
        Some(dtype) if dtype.is_float() || dtype.is_complex() => {
            Tensor::load_csv::<f32>(path, limits)?.cast(dtype)?
        }
        Some(dtype) => Tensor::load_csv::<i64>(path, limits)?.cast(dtype)?,
        None => Tensor::load_csv::<f32>(path, limits)?,
    };
    match port.shape.as_deref().and_then(|dims| shape_of(dims, table.num_elements())) {
        Some(shape) => table.reshape(&shape),
        None => Ok(table),
    }
}

/// The shape with this number of elements that matches `dims`. One unknown size is found by division.
fn shape_of(dims: &[Dim], elements: usize) -> Option<Vec<usize>> {
    let fixed = |dim: &Dim| match dim {
        Dim::Fixed(size) => usize::try_from(*size).ok(),
        _ => None,
    };
    let known = dims.iter().filter_map(fixed).try_fold(1usize, usize::checked_mul)?;
    let unknown = dims.iter().filter(|dim| fixed(dim).is_none()).count();
    let missing =
        elements.checked_div(known).filter(|missing| missing.checked_mul(known) == Some(elements))?;
    match unknown {
        0 => (missing == 1).then(|| dims.iter().filter_map(fixed).collect()),
        1 => Some(dims.iter().map(|dim| fixed(dim).unwrap_or(missing)).collect()),
        _ => None,
    }
}

/// Random floats, or zeros for other types, in the shape of the file, with 1 for every unknown size.
fn random_input(port: &Port, seed: u64, limits: &Limits) -> Result<Tensor, Failure> {
    let (Some(dims), Some(dtype)) = (&port.shape, port.dtype) else {
        let message =
            format!("the file does not specify the shape of input `{}`; give it with --input", port.name);
        return Err(Failure::unusable(message));
    };
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => usize::try_from(*size).unwrap_or(usize::MAX),
        _ => 1,
    };
    let make = || -> Result<Tensor, Box<dyn std::error::Error + Send + Sync>> {
        let shape = Shape::new(&dims.iter().map(size).collect::<Vec<_>>())?;
        limits.check_tensor(
            &format!("input `{}`", port.name),
            (shape.num_elements() as u64).saturating_mul(8),
        )?;
        if dtype.is_float() || dtype.is_complex() {
            return Ok(Tensor::randn(&shape, seed)?.cast(dtype)?);
        }
        Ok(Tensor::zeros(dtype, &shape)?)
    };
    make().map_err(Failure::unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(dims: &[Option<u64>], dtype: DType) -> Port {
        let dims = dims.iter().map(|dim| dim.map_or(Dim::Unknown, Dim::Fixed)).collect();
        Port::new("x", Some(dtype), Some(dims))
    }

    #[test]
    fn one_unknown_size_is_found_by_division() {
        let dims = [Dim::Unknown, Dim::Fixed(4)];
        assert_eq!(shape_of(&dims, 12), Some(vec![3, 4]));
        assert_eq!(shape_of(&dims, 13), None);
        assert_eq!(shape_of(&[Dim::Fixed(2), Dim::Fixed(3)], 6), Some(vec![2, 3]));
        assert_eq!(shape_of(&[Dim::Fixed(2), Dim::Fixed(3)], 12), None);
        assert_eq!(shape_of(&[Dim::Unknown, Dim::Unknown], 6), None);
        assert_eq!(shape_of(&[Dim::Unknown, Dim::Fixed(0)], 6), None);
    }

    #[test]
    fn random_inputs_depend_on_the_seed_alone() {
        let floats = port(&[None, Some(3)], DType::F32);
        let limits = Limits::default();
        let first = random_input(&floats, 7, &limits).unwrap();
        assert_eq!(first.shape().dims(), &[1, 3]);
        let (again, other) =
            (random_input(&floats, 7, &limits).unwrap(), random_input(&floats, 8, &limits).unwrap());
        assert_eq!(first.to_vec::<f32>().unwrap(), again.to_vec::<f32>().unwrap());
        assert_ne!(first.to_vec::<f32>().unwrap(), other.to_vec::<f32>().unwrap());
        let ints = random_input(&port(&[Some(2)], DType::I64), 7, &limits).unwrap();
        assert_eq!(ints.to_vec::<i64>().unwrap(), [0, 0]);
    }

    #[test]
    fn arrays_may_be_numbered() {
        assert_eq!(place("in_0"), Some(Place::Input(0)));
        assert_eq!(place("in_12"), Some(Place::Input(12)));
        assert_eq!(place("out_1"), Some(Place::Output));
        for name in ["in", "in_", "in_x", "in_+1", "in_-1", "pnnx_input_0", "min_0", "in_0_1", ""] {
            assert_eq!(place(name), None, "{name}");
        }
    }

    #[test]
    fn random_inputs_stay_within_the_limits() {
        let huge = port(&[Some(1 << 40)], DType::F32);
        assert!(random_input(&huge, 7, &Limits::default()).is_err());
        assert!(
            random_input(&port(&[Some(u64::MAX), Some(u64::MAX)], DType::F32), 7, &Limits::default())
                .is_err()
        );
    }
}
