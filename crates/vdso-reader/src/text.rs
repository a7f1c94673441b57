//! The view as text for people, at most 80 columns wide.

use super::view::{ImageOrigin, View};
use super::{Binding, Symbol, SymbolKind};
use clockscope_text::foreign::printable;
use clockscope_text::lines::{cut_left, width};
use clockscope_text::units::count;

/// Columns for the name of a symbol; the longest name in Linux 7.3 has 40.
const NAME_MAX: usize = 44;
/// Columns for the version of a symbol.
const VERSION_MAX: usize = 16;

/// The whole text.
pub fn render(view: &View<'_>) -> String {
    head(view) + &symbols(view)
}

fn head(view: &View<'_>) -> String {
    let mut out = match &view.source {
        ImageOrigin::Own { pid } => format!("vDSO of this process, pid {pid}\n"),
        ImageOrigin::Process { pid } => format!("vDSO of process {pid}\n"),
        ImageOrigin::File { path } => format!("vDSO in the file {path}\n"),
    };
    if let Some(address) = view.address {
        out += &format!("  address   {address} (AT_SYSINFO_EHDR)\n");
        if let Some(kernel) = view.kernel_address.filter(|kernel| *kernel != address) {
            let why = "the process was given another image";
            out += &format!("  kernel's  {kernel} ([vdso]); {why}\n");
        }
    }
    out += &format!("  size      {} bytes\n", count(view.size_bytes));
    let soname = view.soname.map_or_else(|| "no SONAME".to_owned(), printable);
    out += &format!("  image     {soname}, {}, ELF{}\n", view.machine, view.address_bits);
    if let Some(version) = &view.linux_version {
        out += &format!("  kernel    Linux {version}\n");
    }
    if let Some(id) = &view.build_id {
        out += &format!("  build id  {id}\n");
    }
    out
}

fn symbols(view: &View<'_>) -> String {
    let mut heads = vec!["symbol", "type", ">offset", ">bytes", "version"];
    if view.address.is_some() {
        heads.push(">address");
    }
    let (defined, undefined): (Vec<_>, Vec<_>) =
        view.symbols.iter().partition(|placed| placed.symbol.defined);
    let rows = defined.into_iter().map(|placed| {
        let symbol = placed.symbol;
        let mut row = vec![
            cut_left(&printable(&symbol.name), NAME_MAX),
            type_letter(symbol).to_string(),
            if symbol.absolute { "-".to_owned() } else { format!("{:#x}", symbol.offset) },
            count(symbol.size),
            cut_left(&printable(symbol.version.as_deref().unwrap_or("-")), VERSION_MAX),
        ];
        if view.address.is_some() {
            row.push(placed.address.map_or_else(|| "-".to_owned(), |address| address.to_string()));
        }
        row
    });
    let out = table(&heads, rows.collect());
    match undefined.len() {
        0 => out,
        count => format!("{out}  and {count} that the image asks for and does not define\n"),
    }
}

/// The symbol's letter as in `nm`: T function, W weak function, A absolute, R data; N if it has no type.
fn type_letter(symbol: &Symbol) -> char {
    match (symbol.kind, symbol.binding) {
        _ if symbol.absolute => 'A',
        (SymbolKind::Func, Binding::Weak) => 'W',
        (SymbolKind::Func, Binding::Global) => 'T',
        (SymbolKind::Object, _) => 'R',
        (SymbolKind::NoType, _) => 'N',
        _ => '?',
    }
}

/// An empty line and a table; columns whose head starts with `>` are aligned to the right.
fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let titles = heads.iter().map(|head| head.trim_start_matches('>').to_owned()).collect();
    let mut lines: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    // The title of the first column has no indent.
    for (number, line) in lines.iter_mut().enumerate() {
        line[0] = if number == 0 { format!("{}  ", line[0]) } else { format!("  {}", line[0]) };
    }
    let width_of = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| width(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width_of).collect();
    let mut out = "\n".to_owned();
    for line in &lines {
        let cells = line.iter().zip(heads).zip(&widths).map(|((cell, head), columns)| {
            // Not padded by the formatter, whose widths end at 65,535.
            let pad = " ".repeat(columns - width(cell));
            if head.starts_with('>') { pad + cell } else { cell.clone() + &pad }
        });
        out += &format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows =
            vec![vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "22".to_owned()]];
        let expected = "\nx      number\n  a         1\n  bcd      22\n";
        assert_eq!(table(&["x", ">number"], rows), expected);
    }
}
