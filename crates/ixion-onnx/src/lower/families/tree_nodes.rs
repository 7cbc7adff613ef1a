//! The nodes of decision trees, and their order.

use crate::OnnxError;
use ixion_pnnx::Attribute;
use ixion_tensor::DType;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A tree, and a node in it.
type Key = (i64, i64);

/// A comparison.
#[derive(Debug, Clone)]
pub(super) struct Split {
    pub(super) feature: i64,
    pub(super) threshold: f64,
    pub(super) mode: u8,
    pub(super) children: [Key; 2],
}

/// What a leaf adds to a target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf {
    pub(super) target: i64,
    pub(super) weight: f64,
}

#[derive(Debug, Clone)]
enum Node {
    Split(Split),
    Leaf(Vec<Leaf>),
}

/// The nodes of all trees.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    nodes: HashMap<Key, Node>,
    /// Keys in the order of the file.
    order: Vec<Key>,
    roots: Option<Vec<Key>>,
    added: i64,
}

impl Nodes {
    fn add(&mut self, key: Key, node: Node) -> Result<(), String> {
        self.order.push(key);
        match self.nodes.insert(key, node) {
            None => Ok(()),
            Some(_) => Err(format!("the tree {} has two nodes {}", key.0, key.1)),
        }
    }

    pub(super) fn add_leaf(&mut self, key: Key) -> Result<(), String> {
        self.add(key, Node::Leaf(Vec::new()))
    }

    pub(super) fn add_split(&mut self, key: Key, split: Split) -> Result<(), String> {
        match split.feature < 0 {
            true => Err(format!("the node {} compares the feature {}", key.1, split.feature)),
            false => self.add(key, Node::Split(split)),
        }
    }

    /// Adds a node that tests whether a feature is in a set: one comparison for each element.
    pub(super) fn add_set(&mut self, key: Key, split: &Split, set: &[f64]) -> Result<(), String> {
        let [yes, no] = split.children;
        let mut at = key;
        for (position, value) in set.iter().enumerate() {
            let is_last = position + 1 == set.len();
            self.added += 1;
            let next = if is_last { no } else { (2, self.added) };
            self.add_split(at, Split { threshold: *value, children: [yes, next], ..split.clone() })?;
            at = next;
        }
        match set.is_empty() {
            true => Err(format!("the set of the node {} is missing or empty", key.1)),
            false => Ok(()),
        }
    }

    pub(super) fn add_weight(&mut self, key: Key, leaf: Leaf) -> Result<(), String> {
        match self.nodes.get_mut(&key) {
            Some(Node::Leaf(leaves)) => {
                leaves.push(leaf);
                Ok(())
            }
            // Files may give weights to nodes that are no leaves; they have no effect.
            Some(Node::Split(_)) => Ok(()),
            None => Err(format!("the tree {} has no node {}, which has a weight", key.0, key.1)),
        }
    }

    pub(super) fn set_roots(&mut self, roots: Vec<Key>) {
        self.roots = Some(roots);
    }

    fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.nodes
            .values()
            .filter_map(|node| if let Node::Leaf(leaves) = node { Some(leaves) } else { None })
            .flatten()
    }

    /// The targets that leaves add to.
    pub(super) fn targets(&self) -> BTreeSet<i64> {
        self.leaves().map(|leaf| leaf.target).collect()
    }

    pub(super) fn weights(&self) -> impl Iterator<Item = f64> {
        self.leaves().map(|leaf| leaf.weight)
    }

    /// The same trees with target 0 in place of all others.
    pub(super) fn with_one_target(mut self) -> Self {
        for node in self.nodes.values_mut() {
            if let Node::Leaf(leaves) = node {
                leaves.iter_mut().for_each(|leaf| leaf.target = 0);
            }
        }
        self
    }

    /// The first node of each tree: the ones that no other leads to.
    fn roots(&self) -> Vec<Key> {
        let children =
            |node: &Node| if let Node::Split(split) = node { split.children.to_vec() } else { Vec::new() };
        let followers: HashSet<Key> = self.nodes.values().flat_map(children).collect();
        self.order.iter().filter(|key| !followers.contains(key)).copied().collect()
    }

    /// All nodes in lists, those that follow a node behind it.
    ///
    /// # Errors
    /// The reason if two nodes lead to the same one, or if a node is missing.
    pub(super) fn flattened(&self) -> Result<Flat, String> {
        let roots = self.roots.clone().unwrap_or_else(|| self.roots());
        let mut places: HashMap<Key, i64> = HashMap::new();
        let mut order: Vec<(Key, &Node)> = Vec::new();
        for root in &roots {
            let mut open = vec![*root];
            while let Some(key) = open.pop() {
                let node = self
                    .nodes
                    .get(&key)
                    .ok_or_else(|| format!("the tree {} has no node {}", key.0, key.1))?;
                let is_leaf = matches!(node, Node::Leaf(_));
                if let (Some(_), false) = (places.get(&key), is_leaf) {
                    return Err(format!("two nodes lead to the node {} of the tree {}", key.1, key.0));
                }
                // The last of several places, behind all nodes that lead to it.
                places.insert(key, i64::try_from(order.len()).unwrap_or(i64::MAX));
                order.push((key, node));
                if let Node::Split(split) = node {
                    open.extend(split.children.iter().rev());
                }
            }
        }
        if places.len() < self.nodes.len() && self.roots.is_none() {
            return Err("some nodes lead to each other in a circle".to_owned());
        }
        let mut flat = Flat::default();
        for (_, node) in order {
            flat.push(node, &places);
        }
        flat.roots = roots.iter().filter_map(|root| places.get(root)).copied().collect();
        Ok(flat)
    }
}

/// The nodes in lists.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Flat {
    features: Vec<i64>,
    thresholds: Vec<f64>,
    modes: Vec<u8>,
    children: Vec<i64>,
    roots: Vec<i64>,
    targets: Vec<i64>,
    weights: Vec<f64>,
}

impl Flat {
    fn push(&mut self, node: &Node, places: &HashMap<Key, i64>) {
        match node {
            Node::Split(split) => {
                self.features.push(split.feature);
                self.thresholds.push(split.threshold);
                self.modes.push(split.mode);
                self.children.extend(split.children.iter().map(|key| places.get(key).copied().unwrap_or(-1)));
            }
            Node::Leaf(leaves) => {
                self.features.push(-1);
                self.thresholds.push(0.0);
                self.modes.push(0);
                self.children.push(i64::try_from(self.weights.len()).unwrap_or(-1));
                self.targets.extend(leaves.iter().map(|leaf| leaf.target));
                self.weights.extend(leaves.iter().map(|leaf| leaf.weight));
                self.children.push(i64::try_from(self.weights.len()).unwrap_or(-1));
            }
        }
    }

    /// The lists as attributes of the operator that evaluates them.
    ///
    /// # Errors
    /// [`OnnxError::Weight`] if a list cannot be stored.
    pub(super) fn attributes(&self, is_double: bool) -> Result<Vec<(&'static str, Attribute)>, OnnxError> {
        let (nodes, leaves) = (self.features.len(), self.weights.len());
        let ints = |shape: Vec<usize>, list: &[i64]| {
            Attribute::new(
                DType::I64,
                shape,
                list.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>(),
            )
        };
        let doubles = |shape: Vec<usize>, list: &[f64]| {
            Attribute::new(
                DType::F64,
                shape,
                list.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>(),
            )
        };
        let narrow: Vec<f32> = self.weights.iter().map(|weight| *weight as f32).collect();
        let weights = if is_double {
            doubles(vec![leaves], &self.weights)
        } else {
            Attribute::from_f32s(vec![leaves], &narrow)
        };
        Ok(vec![
            ("features", ints(vec![nodes], &self.features)?),
            ("thresholds", doubles(vec![nodes], &self.thresholds)?),
            ("modes", Attribute::new(DType::U8, vec![nodes], self.modes.clone())?),
            ("children", ints(vec![nodes, 2], &self.children)?),
            ("roots", ints(vec![self.roots.len()], &self.roots)?),
            ("targets", ints(vec![leaves], &self.targets)?),
            ("weights", weights?),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(children: [i64; 2]) -> Split {
        Split { feature: 0, threshold: 0.5, mode: 0, children: children.map(|id| (7, id)) }
    }

    #[test]
    fn nodes_follow_those_that_lead_to_them() {
        let mut nodes = Nodes::default();
        nodes.add_leaf((7, 1)).unwrap();
        nodes.add_split((7, 5), split([2, 1])).unwrap();
        nodes.add_leaf((7, 2)).unwrap();
        nodes.add_weight((7, 1), Leaf { target: 0, weight: 3.0 }).unwrap();
        let flat = nodes.flattened().unwrap();
        assert_eq!(
            (flat.features, flat.children, flat.roots),
            (vec![0, -1, -1], vec![1, 2, 0, 0, 0, 1], vec![0])
        );
        assert!(
            nodes.add_leaf((7, 1)).is_err()
                && nodes.add_weight((1, 1), Leaf { target: 0, weight: 3.0 }).is_err()
        );
    }

    #[test]
    fn circles_and_missing_nodes() {
        let mut nodes = Nodes::default();
        nodes.add_split((7, 0), split([1, 1])).unwrap();
        assert!(nodes.flattened().unwrap_err().contains("no node 1"));
        nodes.add_split((7, 1), split([0, 0])).unwrap();
        assert!(nodes.flattened().unwrap_err().contains("circle"));
        nodes.set_roots(vec![(7, 0)]);
        assert!(nodes.flattened().unwrap_err().contains("two nodes lead to"));
    }
}
