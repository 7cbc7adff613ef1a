//! Selection of the first few positions in an order, without sorting all of them.

/// Moves the positions of the first `k` elements to the front, in unspecified order: a quickselect with the median of three
/// as pivot, until at most three positions are left, which are sorted.
pub(super) fn select(places: &mut [usize], k: usize, less: impl Fn(usize, usize) -> bool) {
    let (mut first, mut last) = (0, places.len());
    let mut depth = 2 * places.len().max(1).ilog2();
    let Some(nth) = k.checked_sub(1).filter(|&nth| nth < last) else { return };
    while last - first > 3 {
        if depth == 0 {
            return places[first..last].sort_by(|&a, &b| less(b, a).cmp(&less(a, b)));
        }
        depth -= 1;
        let middle = first + (last - first) / 2;
        let median = median_of([first + 1, middle, last - 1], |a, b| less(places[a], places[b]));
        places.swap(first, median);
        let cut = part(places, first, last, &less);
        if cut <= nth { first = cut } else { last = cut }
    }
    for sorted in first + 1..last {
        for at in (first + 1..=sorted).rev().take_while(|&at| at > first) {
            if !less(places[at], places[at - 1]) {
                break;
            }
            places.swap(at, at - 1);
        }
    }
}

fn median_of([a, b, c]: [usize; 3], less: impl Fn(usize, usize) -> bool) -> usize {
    match (less(a, b), less(b, c), less(a, c)) {
        (true, true, _) => b,
        (true, false, true) => c,
        (true, false, false) => a,
        (false, _, true) => a,
        (false, true, false) => c,
        (false, false, false) => b,
    }
}

/// Partitions `first + 1..last` around the pivot at `first`; returns where the second part begins.
fn part(places: &mut [usize], first: usize, last: usize, less: impl Fn(usize, usize) -> bool) -> usize {
    let pivot = places[first];
    let (mut low, mut high) = (first + 1, last);
    loop {
        while low < last && less(places[low], pivot) {
            low += 1;
        }
        high -= 1;
        while high > first && less(pivot, places[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        places.swap(low, high);
        low += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsorted_selection_finds_the_same_elements() {
        let values: Vec<usize> = (0..40).map(|i| (i * i * 7 + i * 3) % 23).collect();
        for k in 0..=values.len() {
            let mut places: Vec<usize> = (0..values.len()).collect();
            select(&mut places, k, |a, b| values[a] < values[b]);
            let (mut found, mut sorted) = (places[..k].to_vec(), values.clone());
            found.iter_mut().for_each(|place| *place = values[*place]);
            found.sort_unstable();
            sorted.sort_unstable();
            assert_eq!(found, sorted[..k], "the {k} smallest");
        }
    }
}
