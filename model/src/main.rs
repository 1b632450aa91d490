use model::charge::*;
use stateright::*;
fn main() {
    let w: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let mut cs = Vec::new();
    for class in [Class::Idempotent, Class::Lookup, Class::LookupOnly, Class::Neither] {
        cs.push(Charging::new(w, class));
        cs.push(Charging { reconciles: true, ..Charging::new(w, class) });
    }
    cs.push(Charging { late: false, ..Charging::new(w, Class::LookupOnly) });
    for c in cs {
        let t = std::time::Instant::now();
        let ch = c.checker().threads(2).spawn_bfs().join();
        println!("{c:?}: {} states depth {} {:?}", ch.unique_state_count(), ch.max_depth(), t.elapsed());
        let d = ch.discoveries();
        for p in c.properties() {
            let found = d.get(p.name);
            if found.is_some() == p.expectation.discovery_is_failure() {
                println!("  !! {} {:?}", p.name, found.map(|p| p.clone().into_actions()));
            }
        }
        if w < 3 {
        let t = std::time::Instant::now();
        let e = ends::search(&c);
        println!("   ends {} settled {} stuck {} {:?} {:?}", e.states, e.settled, e.stuck, e.trace, t.elapsed());
        }
    }
}
use model::ends;
