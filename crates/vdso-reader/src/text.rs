//! The view as text for people, at most 80 columns wide.

use std::io::{self, Write};

use super::image::flag_letters;
use super::view::{ImageOrigin, View};
use super::{Binding, Hex, Symbol, SymbolKind};
use clockscope_text::foreign::printable;
use clockscope_text::lines::width;
use clockscope_text::units::count;

/// Columns for the name of a symbol; the longest name in Linux 7.3 has 40.
const NAME_MAX: usize = 44;
/// Columns for the version of a symbol.
const VERSION_MAX: usize = 16;

/// Writes everything.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write_view(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    write_head(out, view)?;
    write_mappings(out, view)?;
    write_segments(out, view)?;
    write_symbols(out, view)
}

fn write_head(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    match &view.source {
        ImageOrigin::Own { pid } => writeln!(out, "vDSO of this process, pid {pid}")?,
        ImageOrigin::Process { pid } => writeln!(out, "vDSO of process {pid}")?,
        ImageOrigin::File { path } => writeln!(out, "vDSO in the file {path}")?,
    }
    if let Some(address) = view.address {
        writeln!(out, "  address   {address} (AT_SYSINFO_EHDR)")?;
        if let Some(kernel) = view.kernel_address.filter(|kernel| *kernel != address) {
            writeln!(out, "  kernel's  {kernel} ([vdso]); the process was given another image")?;
        }
    }
    let (size, used) = (count(view.size_bytes), count(view.content_bytes));
    writeln!(out, "  size      {size} bytes, {used} in use")?;
    let soname = view.soname.map_or_else(|| "no SONAME".to_owned(), printable);
    writeln!(out, "  image     {soname}, {}, ELF{}", view.machine, view.address_bits)?;
    if let Some(version) = &view.linux_version {
        writeln!(out, "  kernel    Linux {version}")?;
    }
    if let Some(salt) = &view.build_salt {
        writeln!(out, "  salt      {}", printable(salt))?;
    }
    if let Some(id) = &view.build_id {
        writeln!(out, "  build id  {id}")?;
    }
    Ok(())
}

fn write_mappings(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    if view.mappings.is_empty() {
        return Ok(());
    }
    let rows = view.mappings.iter().map(|mapping| {
        let name = printable(&mapping.name);
        let name = if name.is_empty() { "(no name)" } else { &name };
        vec![
            shortened(name, 26),
            Hex(mapping.start).to_string(),
            Hex(mapping.end).to_string(),
            count(mapping.size()),
            mapping.perms.clone(),
        ]
    });
    table(out, &["mapping", ">start", ">end", ">bytes", "perms"], rows.collect())
}

fn write_segments(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    let rows = view.segments.iter().map(|segment| {
        vec![
            segment.kind.to_string(),
            format!("{:#x}", segment.offset),
            Hex(segment.vaddr).to_string(),
            count(segment.file_size),
            count(segment.mem_size),
            flag_letters(segment.flags),
        ]
    });
    let heads = ["segment", ">offset", ">linked for", ">bytes", ">in memory", "flags"];
    table(out, &heads, rows.collect())
}

fn write_symbols(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    let mut heads = vec!["symbol", "type", ">offset", ">bytes", "version"];
    if view.address.is_some() {
        heads.push(">address");
    }
    let (defined, undefined): (Vec<_>, Vec<_>) =
        view.symbols.iter().partition(|placed| placed.symbol.defined);
    let rows = defined.into_iter().map(|placed| {
        let symbol = placed.symbol;
        let mut row = vec![
            shortened(&printable(&symbol.name), NAME_MAX),
            type_letter(symbol).to_string(),
            if symbol.absolute { "-".to_owned() } else { format!("{:#x}", symbol.offset) },
            count(symbol.size),
            symbol.version.as_ref().map_or_else(
                || "-".to_owned(),
                |version| shortened(&printable(version), VERSION_MAX),
            ),
        ];
        if view.address.is_some() {
            row.push(placed.address.map_or_else(|| "-".to_owned(), |address| address.to_string()));
        }
        row
    });
    table(out, &heads, rows.collect())?;
    match undefined.len() {
        0 => Ok(()),
        count => writeln!(out, "  and {count} that the image asks for and does not define"),
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

/// A text cut to `width` characters; keeps the end, which is the specific part of a path.
fn shortened(text: &str, width: usize) -> String {
    match text.chars().count().checked_sub(width) {
        None | Some(0) => text.to_owned(),
        Some(over) => format!("…{}", text.chars().skip(over + 1).collect::<String>()),
    }
}

/// Writes an empty line and a table; columns whose head starts with `>` are aligned to the right.
fn table(out: &mut impl Write, heads: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
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
    writeln!(out)?;
    for line in &lines {
        let cells = line.iter().zip(heads).zip(&widths).map(|((cell, head), columns)| {
            // Not padded by the formatter, whose widths end at 65,535.
            let pad = " ".repeat(columns - width(cell));
            if head.starts_with('>') { pad + cell } else { cell.clone() + &pad }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_start() {
        let pairs = [("abc", "abc"), ("abcdef", "abcdef"), ("abcdefg", "…cdefg"), ("", "")];
        for (name, text) in pairs {
            assert_eq!(shortened(name, 6), text);
        }
    }

    #[test]
    fn columns_are_aligned() {
        let mut out = Vec::new();
        let rows =
            vec![vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "22".to_owned()]];
        table(&mut out, &["x", ">number"], rows).unwrap();
        let expected = "\nx      number\n  a         1\n  bcd      22\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
