//! An ordered map whose clones share what is not changed afterwards.
//!
//! Every picture of the catalog is a whole of its own, and each step of a DDL command makes one: what that costs must depend
//! on what the step changes, not on how many objects there are. So the maps of a picture are B-trees with shared nodes:
//!
//! ```text
//! before the change:   [ a .. | m .. ]           after:   [ a .. | m' .. ]
//!                        /        \                         /         \
//!                   { a c f }  { m p t }           (the same)    { m p q t }
//! ```
//!
//! A clone is one reference more. A change copies the nodes on the way to it that another clone still uses, and no
//! others.
//!
//! Nodes that become small are not joined again, only empty ones are taken away: catalogs lose a few rows and gain others.

use std::borrow::Borrow;
use std::sync::Arc;

/// A node with more entries is split.
const NODE_ENTRIES: usize = 32;

#[derive(Clone)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    /// Each child with a key that is not greater than any of its own, and greater than any of the children before it. That of
    /// the first child counts as smaller than everything.
    Inner(Vec<(K, Arc<Node<K, V>>)>),
}

#[derive(Clone)]
pub(crate) struct SharedMap<K, V> {
    root: Arc<Node<K, V>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        SharedMap { root: Arc::new(Node::Leaf(Vec::new())), len: 0 }
    }
}

/// The child in which a key is, if it is there.
fn child_at<K: Borrow<Q>, V, Q: Ord + ?Sized>(children: &[(K, V)], key: &Q) -> usize {
    children.partition_point(|(first, _)| first.borrow() <= key).saturating_sub(1)
}

impl<K: Ord + Clone, V: Clone> Node<K, V> {
    /// The value that was there, and the right half of the node if it was split.
    fn insert(&mut self, key: K, value: V) -> (Option<V>, Option<(K, Node<K, V>)>) {
        match self {
            Node::Leaf(entries) => {
                match entries.binary_search_by(|(other, _)| other.cmp(&key)) {
                    Ok(at) => return (Some(std::mem::replace(&mut entries[at].1, value)), None),
                    Err(at) => entries.insert(at, (key, value)),
                }
                let right = split(entries).map(|right| (right[0].0.clone(), Node::Leaf(right)));
                (None, right)
            }
            Node::Inner(children) => {
                let at = child_at(children, &key);
                let (old, right) = Arc::make_mut(&mut children[at].1).insert(key, value);
                if let Some((first, right)) = right {
                    children.insert(at + 1, (first, Arc::new(right)));
                }
                (old, split(children).map(|right| (right[0].0.clone(), Node::Inner(right))))
            }
        }
    }

    /// The key is there.
    fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Node::Leaf(entries) => {
                let at = entries.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
                Some(entries.remove(at).1)
            }
            Node::Inner(children) => {
                let at = child_at(children, key);
                let child = Arc::make_mut(&mut children[at].1);
                let removed = child.remove(key);
                if child.is_empty() {
                    children.remove(at);
                }
                removed
            }
        }
    }

    fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Node::Leaf(entries) => {
                let at = entries.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
                Some(&mut entries[at].1)
            }
            Node::Inner(children) => {
                let at = child_at(children, key);
                Arc::make_mut(&mut children[at].1).get_mut(key)
            }
        }
    }
}

impl<K, V> Node<K, V> {
    fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(entries) => entries.is_empty(),
            Node::Inner(children) => children.is_empty(),
        }
    }
}

/// The right half of what is too long.
fn split<T>(entries: &mut Vec<T>) -> Option<Vec<T>> {
    (entries.len() > NODE_ENTRIES).then(|| entries.split_off(entries.len() / 2))
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Inner(children) => node = &children.get(child_at(children, key))?.1,
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
                    return Some(&entries[at].1);
                }
            }
        }
    }

    /// The value that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (old, right) = Arc::make_mut(&mut self.root).insert(key, value);
        if let Some((first, right)) = right {
            // The first child's key is never compared.
            let left = self.root.clone();
            self.root = Arc::new(Node::Inner(vec![(first.clone(), left), (first, Arc::new(right))]));
        }
        self.len += usize::from(old.is_none());
        old
    }

    /// The value that was there. What is not there copies nothing.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let root = Arc::make_mut(&mut self.root);
        let removed = root.remove(key);
        self.len -= 1;
        if self.len == 0 {
            self.root = Arc::new(Node::Leaf(Vec::new()));
        }
        removed
    }

    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        Arc::make_mut(&mut self.root).get_mut(key)
    }

    /// The value of a key, which gets the default one if it has none.
    pub fn or_default(&mut self, key: &K) -> &mut V
    where
        V: Default,
    {
        if self.get(key).is_none() {
            self.insert(key.clone(), V::default());
        }
        self.get_mut(key).expect("a key that was inserted is there")
    }

    /// Entries in order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { above: Vec::new(), leaf: [].iter() };
        iter.descend(&self.root);
        iter
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Entries at or behind `low`, in order.
    pub fn from<Q: Ord + ?Sized>(&self, low: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let mut above = Vec::new();
        let mut node = &*self.root;
        loop {
            match node {
                Node::Inner(children) => {
                    let at = child_at(children, low);
                    let Some((_, child)) = children.get(at) else { break };
                    above.push(children[at + 1..].iter());
                    node = child;
                }
                Node::Leaf(entries) => {
                    let at = entries.partition_point(|(key, _)| key.borrow() < low);
                    return Iter { above, leaf: entries[at..].iter() };
                }
            }
        }
        Iter { above, leaf: [].iter() }
    }
}

/// Entries in order.
pub(crate) struct Iter<'a, K, V> {
    /// What is left of the inner nodes above the leaf.
    above: Vec<std::slice::Iter<'a, (K, Arc<Node<K, V>>)>>,
    leaf: std::slice::Iter<'a, (K, V)>,
}

impl<'a, K, V> Iter<'a, K, V> {
    fn descend(&mut self, mut node: &'a Node<K, V>) {
        loop {
            match node {
                Node::Leaf(entries) => {
                    self.leaf = entries.iter();
                    return;
                }
                Node::Inner(children) => {
                    let mut rest = children.iter();
                    let Some((_, child)) = rest.next() else { return };
                    self.above.push(rest);
                    node = child;
                }
            }
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                return Some((key, value));
            }
            match self.above.last_mut()?.next() {
                Some((_, child)) => self.descend(child),
                None => {
                    self.above.pop();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Nodes of `map` that `other` does not share.
    fn own_nodes(map: &SharedMap<u32, u32>, other: &SharedMap<u32, u32>) -> usize {
        fn collect(node: &Arc<Node<u32, u32>>, found: &mut Vec<*const Node<u32, u32>>) {
            found.push(Arc::as_ptr(node));
            if let Node::Inner(children) = &**node {
                children.iter().for_each(|(_, child)| collect(child, found));
            }
        }
        let (mut all, mut shared) = (Vec::new(), Vec::new());
        collect(&map.root, &mut all);
        collect(&other.root, &mut shared);
        all.iter().filter(|node| !shared.contains(node)).count()
    }

    #[test]
    fn a_change_copies_one_node_on_each_level() {
        let mut map = SharedMap::default();
        for key in 0..20_000 {
            map.insert(key, key);
        }
        let mut changed = map.clone();
        changed.insert(777, 0);
        assert!(own_nodes(&changed, &map) <= 4, "{}", own_nodes(&changed, &map));
        assert_eq!((map.get(&777), changed.get(&777)), (Some(&777), Some(&0)));
        let mut same = map.clone();
        assert_eq!(same.remove(&20_000), None);
        assert!(same.get_mut(&20_000).is_none());
        assert_eq!(own_nodes(&same, &map), 0);
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_map(
            steps in proptest::collection::vec((0u32..300, any::<bool>()), 0..2000),
            low in 0u32..310,
        ) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut kept = Vec::new();
            for (number, (key, insert)) in (0u32..).zip(steps) {
                if insert {
                    prop_assert_eq!(map.insert(key, number), model.insert(key, number));
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                if number % 500 == 0 {
                    kept.push((map.clone(), model.clone()));
                }
            }
            kept.push((map, model));
            for (map, model) in kept {
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(map.iter().eq(model.iter()));
                prop_assert!(map.from(&low).eq(model.range(low..)));
                for key in 0..300 {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                }
            }
        }
    }
}
