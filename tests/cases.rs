//! The published cases and the incidents: one test per line of the two files, named by its id.
//!
//! A test computes what its line is about, asserts it, and shows it: `CASES.md` is made of what the tests
//! show, and each test fails when its line there is another (see `case_table.rs`). What a policy decides
//! alone is asked of a governor through its public interface; everything else is simulated.

mod cache;
mod capacity;
mod control;
mod day;
mod decide;
mod fallback;
mod gateway;
mod given;
mod host;
mod incidents;
mod limits;
mod loops;
mod losses;
mod providers;
mod semantic;
mod shop;
mod shop_queue;
mod simulated;
mod weighted_bucket;

use forebay_tests::case_table::check_table;

#[test]
fn every_line_has_its_test() {
    if let Err(wrong) = check_table() {
        panic!("tests/CASES.md:\n{wrong}");
    }
}
