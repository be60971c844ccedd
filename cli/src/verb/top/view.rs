//! The screen.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row as Line_, Table};

use super::app::App;
use super::columns::{Column, Tab};
use super::rows::Row;

/// What keys there are, for those who ask.
const HELP: &str = "\
1 2 3, Tab    services, workloads, connections
Up Down, j k  select a row: what was refused stands below
Left Right    sort by another column; r: the other way round
/             show only what has this in its name; Esc: all
p, Space      hold still
q, Ctrl-C     quit

CONN/S and OPEN: connections opened a second, and open now
RTT: round-trip time, of connections that have ended
LASTS: how long connections were open
DENIED/S: refused packets and connects";

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let refused = u16::from(app.selected().is_some());
    let [head, table, detail, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(refused),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(app)), head);
    rows(frame, app, table);
    if let Some(row) = app.selected() {
        let style = match row.reasons.is_empty() {
            true => Style::new(),
            false => colour(app, Style::new().fg(Color::Red)),
        };
        frame.render_widget(Paragraph::new(Span::styled(refusals(row), style)), detail);
    }
    frame.render_widget(Paragraph::new(keys(app)), foot);
    if app.help {
        help(frame);
    }
}

/// Colours only where they are wanted.
fn colour(app: &App, style: Style) -> Style {
    match app.monochrome {
        true => Style {
            fg: None,
            bg: None,
            ..style
        },
        false => style,
    }
}

fn heading(app: &App) -> Line<'static> {
    let mut spans = vec![Span::styled("weft top  ", Modifier::BOLD)];
    for (number, tab) in (1..).zip(Tab::ALL) {
        let style = match tab == app.tab {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        spans.push(Span::styled(format!(" {number} {} ", tab.word()), style));
    }
    spans.push(Span::raw("  "));
    spans.push(state(app));
    Line::from(spans)
}

/// The agents in a few words; what is wrong before anything else.
fn state(app: &App) -> Span<'static> {
    let wrong = colour(app, Style::new().fg(Color::Red)).add_modifier(Modifier::BOLD);
    let failing = app.agents.iter().filter(|a| a.error.is_some()).count();
    let first = app.agents.iter().find_map(|a| a.error.clone());
    match (app.agents.as_slice(), failing, first) {
        ([], _, _) => Span::raw("asking"),
        ([_], 1, Some(error)) => Span::styled(error, wrong),
        (agents, failing, Some(error)) if failing > 0 => Span::styled(
            format!("{failing} of {} agents: {error}", agents.len()),
            wrong,
        ),
        ([one], _, _) if one.partial => Span::raw(format!("{}, many open", one.node)),
        ([one], _, _) => Span::raw(one.node.clone()),
        (agents, _, _) => Span::raw(format!("{} nodes", agents.len())),
    }
}

fn rows(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let all = app.tab.columns().iter().enumerate();
    let columns: Vec<(usize, &Column)> = all.filter(|(_, c)| c.from <= area.width).collect();
    let titles = columns.iter().map(|(place, column)| {
        let title = match column.width {
            0 => app.tab.title().to_uppercase(),
            _ => column.title.to_owned(),
        };
        let mut style = Style::new().add_modifier(Modifier::BOLD);
        if *place == app.sort {
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        aligned(column, Span::styled(title, style))
    });
    let header = Line_::new(titles.collect::<Vec<_>>());
    let lines = app.rows.iter().map(|row| {
        let cells = columns.iter().map(|(_, column)| {
            let text = (column.text)(row);
            let refused = column.title == "DENIED/S" && row.denied > 0.0;
            let style = match refused {
                true => colour(app, Style::new().fg(Color::Red)).add_modifier(Modifier::BOLD),
                false => Style::new(),
            };
            aligned(column, Span::styled(text, style))
        });
        Line_::new(cells.collect::<Vec<_>>())
    });
    let widths = columns.iter().map(|(_, column)| match column.width {
        0 => Constraint::Min(12),
        width => Constraint::Length(width),
    });
    if app.rows.is_empty() {
        let said = match app.filter.as_str() {
            "" => "nothing has been seen yet".to_owned(),
            filter => format!("nothing has {filter:?} in its name"),
        };
        let nothing = Text::from(vec![Line::raw(""), Line::raw(said)]);
        let nothing = Paragraph::new(nothing).alignment(Alignment::Center);
        frame.render_widget(nothing, area);
    }
    let table = Table::new(lines.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .header(header)
        .column_spacing(0)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut app.table);
}

fn aligned<'a>(column: &Column, span: Span<'a>) -> Text<'a> {
    let alignment = match column.width {
        0 => Alignment::Left,
        _ => Alignment::Right,
    };
    Text::from(span).alignment(alignment)
}

fn refusals(row: &Row) -> String {
    if row.reasons.is_empty() {
        return format!("{}: nothing refused", row.name);
    }
    let reasons = row.reasons.iter();
    let reasons: Vec<_> = reasons.map(|(reason, n)| format!("{n} {reason}")).collect();
    format!("{}: refused {}", row.name, reasons.join(", "))
}

fn keys(app: &App) -> Line<'static> {
    if app.typing {
        return Line::from(vec![
            Span::styled("/", Modifier::BOLD),
            Span::raw(app.filter.clone()),
            Span::styled(" ", Modifier::REVERSED),
        ]);
    }
    let mut text = String::new();
    if app.paused {
        text.push_str("PAUSED  ");
    }
    if !app.filter.is_empty() {
        text.push_str(&format!("only {:?}  ", app.filter));
    }
    text.push_str("q quit  Tab next  <> sort  r reverse  / filter  p pause  ? help");
    Line::from(Span::styled(text, Modifier::DIM))
}

fn help(frame: &mut Frame<'_>) {
    let lines = u16::try_from(HELP.lines().count()).unwrap_or(u16::MAX);
    let area = frame.area().centered(
        Constraint::Length(66.min(frame.area().width)),
        Constraint::Length((lines + 2).min(frame.area().height)),
    );
    let block = Block::bordered().title(" any key goes back ");
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(block), area);
}
