//! Random graphs, whose plans are simulated byte by byte and run.

use crate::memory::testing::{Planned, try_plan};
use crate::memory::{Action, Place, Root, testing};
use crate::tensor::Layout;
use proptest::prelude::*;
use std::collections::HashMap;

/// An operator of a random graph: its kind, and two numbers that select its operands.
type Choice = (u8, usize, usize);

/// A graph of small operands, built line by line.
struct Sketch {
    lines: Vec<String>,
    operands: Vec<(String, Vec<usize>)>,
}

impl Sketch {
    fn of(choices: &[Choice], outputs: &[usize]) -> String {
        let mut sketch = Self { lines: Vec::new(), operands: Vec::new() };
        for name in ["x", "y"] {
            sketch.lines.push(format!("pnnx.Input {name} 0 1 {name} #{name}=(2,4)f32"));
            sketch.operands.push((name.to_owned(), vec![2, 4]));
        }
        choices.iter().for_each(|&choice| sketch.take(choice));
        let returned: Vec<&str> =
            outputs.iter().map(|&at| sketch.operands[at % sketch.operands.len()].0.as_str()).collect();
        sketch.lines.push(format!("pnnx.Output out {} 0 {}", returned.len(), returned.join(" ")));
        sketch.lines.join("\n")
    }

    fn take(&mut self, (kind, first, second): Choice) {
        let (a, dims) = self.operands[first % self.operands.len()].clone();
        let mut likely: Vec<&(String, Vec<usize>)> =
            self.operands.iter().filter(|(_, other)| *other == dims).collect();
        let turn = second % likely.len();
        likely.rotate_left(turn);
        let (b, len) = (likely[0].0.clone(), dims.iter().product::<usize>());
        match kind {
            0 => self.unary("F.relu", &a, dims),
            1 => self.unary("F.tanh", &a, dims),
            2 => self.add("pnnx.Expression", &[&a, &b], &[dims], "expr=add(@0,@1)"),
            3..=5 if len <= 32 && dims.len() == 2 => {
                let axis = usize::from(kind == 5);
                let mut joined = dims;
                joined[axis] *= 2;
                self.add("torch.cat", &[&a, &b], &[joined], &format!("dim={axis}"));
            }
            6 if dims.len() == 2 => {
                self.add("Tensor.reshape", &[&a], &[vec![len]], &format!("shape=({len})"))
            }
            6 => {
                let shape = format!("shape=(2,{})", len / 2);
                self.add("Tensor.reshape", &[&a], &[vec![2, len / 2]], &shape);
            }
            7 if dims.len() == 2 && dims[0] % 2 == 0 => {
                let half = vec![dims[0] / 2, dims[1]];
                let sections = format!("split_size_or_sections={} dim=0", half[0]);
                self.add("torch.split", &[&a], &[half.clone(), half], &sections);
            }
            8 if dims.len() == 2 => {
                self.add("torch.transpose", &[&a], &[vec![dims[1], dims[0]]], "dim0=0 dim1=1");
            }
            9 => self.add("F.softmax", &[&a], &[dims], "dim=0"),
            _ => self.unary("F.sigmoid", &a, dims),
        }
    }

    fn unary(&mut self, op_type: &str, input: &str, dims: Vec<usize>) {
        self.add(op_type, &[input], &[dims], "");
    }

    fn add(&mut self, op_type: &str, inputs: &[&str], outputs: &[Vec<usize>], parameters: &str) {
        let names: Vec<String> =
            (0..outputs.len()).map(|i| format!("v{}", self.operands.len() + i)).collect();
        let (inputs_len, outputs_len, at) = (inputs.len(), outputs.len(), self.lines.len());
        let (inputs, outputs_names) = (inputs.join(" "), names.join(" "));
        self.lines.push(format!(
            "{op_type} op{at} {inputs_len} {outputs_len} {inputs} {outputs_names} {parameters}"
        ));
        self.operands.extend(names.into_iter().zip(outputs.iter().cloned()));
    }
}

/// The operand that last wrote each byte of each memory.
#[derive(Default)]
struct Bytes(HashMap<(usize, usize), usize>);

/// The memory of a root, and the first byte of the root in it.
fn memory_of(root: Root) -> (usize, usize) {
    match root {
        Root::Arena { offset, .. } | Root::Device { offset, .. } => (0, offset),
        Root::Input(position) => (1 + 3 * position, 0),
        Root::Output(position) => (2 + 3 * position, 0),
        Root::Constant(position) => (3 + 3 * position, 0),
    }
}

/// The positions of the bytes of all elements, in row-major order.
fn bytes_of(place: &Place) -> Vec<(usize, usize)> {
    let ((memory, start), size) = (memory_of(place.root), place.dtype.size());
    positions(&place.layout)
        .into_iter()
        .flat_map(|position| (0..size).map(move |byte| (memory, start + position * size + byte)))
        .collect()
}

fn positions(layout: &Layout) -> Vec<usize> {
    let mut all = vec![layout.offset()];
    for (&dim, &stride) in layout.shape().iter().zip(layout.strides()) {
        all = all.iter().flat_map(|&position| (0..dim).map(move |i| position + i * stride)).collect();
    }
    all
}

impl Bytes {
    fn owners(&self, place: &Place) -> Vec<Option<usize>> {
        bytes_of(place).iter().map(|byte| self.0.get(byte).copied()).collect()
    }

    fn write(&mut self, place: &Place, owner: usize) {
        self.0.extend(bytes_of(place).into_iter().map(|byte| (byte, owner)));
    }
}

/// Simulates a plan: every byte of an operand that is read must be unchanged since the operand was written.
fn check_no_read_after_overwrite(planned: &Planned) {
    let mut bytes = Bytes::default();
    let mut made: HashMap<usize, Vec<Option<usize>>> = HashMap::new();
    let place = |operand: usize| planned.plan.places[operand].unwrap();
    for port in planned.graph.inputs() {
        let operand = port.operand.position();
        bytes.write(&place(operand), operand);
        made.insert(operand, bytes.owners(&place(operand)));
    }
    for (operator, step) in planned.graph.operators().iter().zip(&planned.plan.steps) {
        for input in operator.inputs() {
            let input = input.position();
            assert_eq!(bytes.owners(&place(input)), made[&input], "{} reads {input}", operator.name());
        }
        bytes.0.extend(step.workspace.clone().map(|byte| ((0, byte), usize::MAX)));
        for output in operator.outputs() {
            let output = output.position();
            if step.action != Action::Nothing {
                bytes.write(&place(output), output);
            }
            let owners = bytes.owners(&place(output));
            assert!(
                owners.iter().all(Option::is_some),
                "{} has bytes that were never written",
                operator.name()
            );
            made.insert(output, owners);
        }
    }
    for (position, port) in planned.graph.outputs().iter().enumerate() {
        let operand = port.operand.position();
        assert_eq!(bytes.owners(&place(operand)), made[&operand], "output {position}");
        let donated = planned.donations.iter().find(|donation| donation.1 == position);
        let wanted = donated.map_or(Root::Output(position), |donation| Root::Input(donation.0));
        let is_copied = planned.plan.copies.contains(&(operand, position));
        assert!(is_copied || place(operand).root == wanted, "output {position} does not arrive");
    }
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    proptest::collection::vec((0u8..11, any::<usize>(), any::<usize>()), 1..24)
}

proptest! {
    #[test]
    fn random_graphs(choices in choices(), outputs in proptest::collection::vec(any::<usize>(), 1..4), donated in any::<bool>()) {
        let lines = Sketch::of(&choices, &outputs);
        let donations: &[(usize, usize)] = if donated { &[(0, 0)] } else { &[] };
        let planned = try_plan(testing::graph(&lines), donations);
        // The donation may be refused: the output may have another size.
        let mut planned = match planned {
            Ok(planned) => planned,
            Err(_) => try_plan(testing::graph(&lines), &[]).unwrap(),
        };
        check_no_read_after_overwrite(&planned);
        planned.check();
    }
}
