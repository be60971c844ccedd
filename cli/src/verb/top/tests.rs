use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::{After, App};
use super::rows::{Row, Times};
use super::view;

fn row(name: &str, opened: f64, denied: f64) -> Row {
    let reasons = match denied {
        0.0 => Default::default(),
        _ => [("isolated".to_owned(), 30)].into(),
    };
    Row {
        name: name.into(),
        opened,
        open: 12,
        sent: 1_000.0,
        received: 2_000_000.0,
        rtt_us: Some(Times {
            p50: 107.0,
            p95: 1_500.0,
        }),
        denied,
        reasons,
        ..Row::default()
    }
}

fn app() -> App {
    let mut app = App::new(Duration::from_secs(10), true);
    app.show([
        vec![
            row("shop/cart", 12.0, 0.0),
            row("shop/payments", 1_200.0, 0.0),
            row("bank/ledger", 3.0, 3.0),
        ],
        vec![row("shop/web", 1.0, 0.0)],
        vec![row("shop/web > shop/cart", 1.0, 0.0)],
    ]);
    app
}

fn press(app: &mut App, code: KeyCode) -> After {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// What is on a screen of this size, line by line.
fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("in memory");
    terminal
        .draw(|frame| view::draw(frame, app))
        .expect("drawn");
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content.chunks(width.into());
    let text = |cells: &[ratatui::buffer::Cell]| {
        let cells = cells.iter().map(ratatui::buffer::Cell::symbol);
        cells.collect::<String>().trim_end().to_owned()
    };
    lines.map(text).collect()
}

#[test]
fn eighty_columns_hold_the_busiest_first() {
    let lines = screen(&mut app(), 80, 24);
    assert!(lines[0].starts_with("weft top   1 services"), "{lines:#?}");
    assert_eq!(
        lines[1],
        "SERVICE                   CONN/S  OPEN BYTES/S RTT p50    p95 LASTS p95 DENIED/S"
    );
    assert!(lines[2].starts_with("shop/payments"), "{lines:#?}");
    assert!(lines[2].contains("1.2k"), "{lines:#?}");
    assert!(lines[2].contains("107µs  1.5ms"), "{lines:#?}");
    assert!(lines[3].starts_with("shop/cart") && lines[4].starts_with("bank/ledger"));
    assert!(lines[23].starts_with("q quit"), "{lines:#?}");
}

#[test]
fn rows_are_sorted_filtered_and_selected() {
    let mut app = app();
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(app.rows[0].name, "bank/ledger");
    press(&mut app, KeyCode::Left);
    assert_eq!(app.rows[0].name, "bank/ledger", "by name");
    for code in "/car".chars().map(KeyCode::Char) {
        press(&mut app, code);
    }
    assert_eq!(app.rows.len(), 1);
    assert!(screen(&mut app, 80, 24)[23].starts_with("/car"));
    press(&mut app, KeyCode::Enter);
    assert!(screen(&mut app, 80, 24)[23].starts_with("only \"car\""));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.rows.len(), 3);
    press(&mut app, KeyCode::Down);
    let lines = screen(&mut app, 80, 24);
    assert_eq!(lines[22], "bank/ledger: refused 30 isolated");
    // It stays selected where others come before it.
    app.show([
        vec![row("a/a", 9.0, 0.0), row("bank/ledger", 3.0, 0.0)],
        Vec::new(),
        Vec::new(),
    ]);
    assert_eq!(
        app.selected().map(|row| row.name.as_str()),
        Some("bank/ledger")
    );
    press(&mut app, KeyCode::Tab);
    assert!(app.rows.is_empty() && app.selected().is_none());
}

#[test]
fn it_holds_still_and_ends_when_told() {
    let mut app = app();
    press(&mut app, KeyCode::Char('p'));
    assert!(screen(&mut app, 80, 24)[23].starts_with("PAUSED"));
    press(&mut app, KeyCode::Char('?'));
    assert!(
        screen(&mut app, 80, 24)
            .iter()
            .any(|l| l.contains("any key goes back"))
    );
    assert_eq!(
        press(&mut app, KeyCode::Char('q')),
        After::Stay,
        "closes the help"
    );
    assert_eq!(press(&mut app, KeyCode::Char('q')), After::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.key(interrupt), After::Quit);
}

#[test]
fn no_screen_is_too_small() {
    let mut app = app();
    press(&mut app, KeyCode::Char('?'));
    for (width, height) in [(1, 1), (10, 2), (30, 5), (300, 3)] {
        screen(&mut app, width, height);
    }
}
