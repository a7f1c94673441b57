//! Any bytes are a runtime's file, or a list of control groups: the result is names that fit on one line, or none.
#![no_main]

use clockscope_containers::place::{Place, paths, place};
use clockscope_containers::state::{Form, names};

/// The container id in the seeds.
const ID: &str = "3f2a81c09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708";

fn check(place: &Place) {
    for shown in [Some(place.to_string()), place.container_name()].into_iter().flatten() {
        assert!(!shown.chars().any(char::is_control), "a control character in {shown:?}");
    }
    let json = serde_json::to_string(place).expect("a place is JSON");
    assert_eq!(serde_json::from_str::<Place>(&json).expect("and comes back"), *place);
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else { return };
    let mut of_group = place(&format!("0::/system.slice/libpod-{ID}.scope\n"));
    let form = match choice & 3 {
        0 => Form::Storage,
        1 => Form::Docker,
        2 => Form::Bundle,
        _ => {
            let text = String::from_utf8_lossy(text);
            assert!(paths(&text).iter().all(|path| text.contains(path)));
            return check(&place(&text));
        }
    };
    if let Some(names) = names(form, text, ID) {
        names.fill(&mut of_group);
        check(&of_group);
        assert!(of_group.container_name().is_some());
    }
});
