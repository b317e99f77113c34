//! Lives through a load in which nothing breaks: `steady randwrite|randread WARM_UP REQUESTS DEPTH young|old`. Run
//! under callgrind by `bench/instructions`.

use sim::{Load, World};

/// As in production.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [rw, warm_up, requests, depth, age] = words.as_slice() else {
        return Err("usage: steady randwrite|randread WARM_UP REQUESTS DEPTH young|old".to_owned());
    };
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let depth = usize::try_from(number(depth)?).map_err(|error| error.to_string())?;
    let load = Load::new(rw == "randwrite", number(requests)?, depth);
    let load = Load { warm_up: number(warm_up)?, ..load };
    World::steady(&if age == "old" { load.aging() } else { load }).map(drop)
}
