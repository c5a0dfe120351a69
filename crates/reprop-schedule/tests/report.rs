//! What the command prints: JSON fields, text, drawings, and errors.

use reprop_schedule::{Error, Method, Request, advances, draw};

fn request(method: Method, steps: usize, slots: usize) -> Request {
    Request { slots: Some(slots), ..Request::new(method, steps) }
}

#[test]
fn the_json_has_exactly_the_documented_fields() {
    let full = Request { disk_slots: Some(10), write: Some(5.0), ..request(Method::HRevolve, 100, 5) };
    let value = serde_json::to_value(full.report().unwrap()).unwrap();
    let mut fields: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    let mut documented = [
        "method",
        "steps",
        "slots",
        "advances",
        "forward_evaluations",
        "snapshots_written",
        "disk_writes",
        "disk_reads",
        "makespan",
        "lower_bound",
        "peak_slots",
    ];
    documented.sort_unstable();
    assert_eq!(fields, documented);
    assert_eq!((value["makespan"].as_f64(), value["method"].as_str()), (Some(380.0), Some("h-revolve")));
}

#[test]
fn every_method_reports_consistent_numbers() {
    for method in Method::ALL {
        for (steps, slots) in [(1, 1), (2, 1), (10, 3), (60, 4)] {
            let asked = Request {
                disk_slots: Some(60),
                write: Some(2.5),
                read: Some(1.5),
                ..request(method, steps, slots)
            };
            let asked = Request { forward: 1.5, backward: 3.25, ..asked };
            let report = asked.report().unwrap();
            assert_eq!(report.forward_evaluations, report.advances + steps as u128);
            assert!(report.lower_bound <= report.makespan + 1e-9, "{report}");
            assert!(method == Method::Stored || report.peak_slots <= slots, "{report}");
            let computed = 1.5 * report.advances as f64 + 3.25 * steps as f64;
            assert!(report.makespan >= computed - 1e-9);
            assert!(report.disk_writes > 0 || (report.makespan - computed).abs() < 1e-9);
            assert_eq!(method.name().parse::<Method>().unwrap(), method);
        }
    }
}

/// No replay comes to the end of these.
#[test]
fn counts_of_a_billion_steps_and_of_the_longest_chain_come_from_closed_forms() {
    let report = request(Method::Revolve, 1_000_000_000, 30).report().unwrap();
    assert_eq!(report.advances, 9_878_900_592);
    let longest = request(Method::Revolve, usize::MAX, 30).report().unwrap();
    assert_eq!(longest.advances, advances(usize::MAX, 30));
    let stored = Request::new(Method::Stored, usize::MAX).report().unwrap();
    assert_eq!(stored.advances, usize::MAX as u128 - 1);
}

#[test]
fn what_is_missing_or_wrong_is_said_with_its_numbers() {
    let said = |request: Request| request.report().unwrap_err().to_string();
    assert!(said(Request::new(Method::Revolve, 10)).contains("--slots"));
    assert!(said(request(Method::Async, 10, 3)).contains("--write"));
    assert!(said(Request { write: Some(1.0), ..request(Method::HRevolve, 10, 3) }).contains("--disk-slots"));
    assert!(said(Request { forward: f64::NAN, ..request(Method::Revolve, 10, 3) }).contains("NaN"));
    assert!(said(request(Method::Mixed, 0, 3)).contains("0 steps"));
    assert!(said(request(Method::Online, 7, 0)).contains("7 steps cannot be reversed with 0 slots"));
    let full = Request { disk_slots: Some(2), write: Some(1.0), ..request(Method::DiskRevolve, 60, 3) };
    assert!(said(full).contains("2 disk slots are given"));
    let unknown = "revolver".parse::<Method>().unwrap_err();
    assert_eq!(unknown, Error::UnknownMethod("revolver".into()));
}

#[test]
fn the_drawing_of_revolve_is_the_one_in_the_guide() {
    let picture = request(Method::Revolve, 10, 3).picture().unwrap();
    let expected = r"revolve on 10 steps, 3 memory slots, makespan 25
    step 9 |         \
    step 8 |        /  \
    step 7 |       o  ^ \
    step 6 |      /        \
    step 5 |     /        o \
    step 4 |    o        ^   \
    step 3 |   /                 \
    step 2 |  /                 o \
    step 1 | /                 o   \
    step 0 |o                 ^     \
  memory 0 |0=======================
  memory 1 |    4============  1===
  memory 2 |       7====  5=    2=
/ forward   \ reverse   o snapshot taken   ^ state comes back
";
    assert_eq!(draw::text(&picture, 80), expected);
}

#[test]
fn drawings_of_every_method_fit_their_width_and_are_whole_documents() {
    for method in Method::ALL {
        let asked = Request { disk_slots: Some(90), write: Some(2.5), ..request(method, 90, 4) };
        let picture = asked.picture().unwrap();
        let text = draw::text(&picture, 72);
        assert!(
            text.lines().filter(|line| line.contains('|')).all(|line| line.chars().count() <= 72),
            "{text}"
        );
        let svg = draw::svg(&picture);
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.matches("<rect").count() > 5);
    }
    assert!(matches!(request(Method::Revolve, 1_000_000, 9).picture(), Err(Error::TooLarge { .. })));
}
