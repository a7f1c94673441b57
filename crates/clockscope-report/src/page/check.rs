//! What each page must hold to, for tests: tags that close, nothing loaded, captions, scopes.

/// Elements without an end tag.
const VOID: [&str; 1] = ["meta"];
/// The only scripts that a page may have: its data, and ours.
const DATA: &str = "<script type=\"application/json\" class=\"flame-data\">";

/// Panics if the page has another script than `script` and data, or is not as [`page`] wants it.
pub(crate) fn page_with_script(html: &str, script: &str) {
    let ours = format!("<script>{script}</script>");
    assert_eq!(html.matches(&ours).count(), 1, "our script is there");
    let mut rest = html.replace(&ours, "");
    while let Some((before, data)) = rest.split_once(DATA) {
        let (data, after) = data.split_once("</script>").expect("data end");
        assert!(!data.contains(['<', '>', '&']), "data that could end their element");
        rest = format!("{before}{after}");
    }
    page(&rest);
}

/// Panics if the page is not well-formed, loads something, has a figure without a caption or a
/// picture without a name.
pub(crate) fn page(html: &str) {
    assert!(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    assert!(html.contains("content=\"default-src 'none'; style-src 'sha256-"));
    balanced(html);
    for loads in ["http:", "https:", "src=", "href=", "@import", "url(", "<script", "<link"] {
        assert!(!html.to_lowercase().contains(loads), "the page has {loads}");
    }
    for number in ["NaN", "\"inf", "-inf", ">inf"] {
        assert!(!html.contains(number), "the page has {number}");
    }
    assert_eq!(html.matches("<title>").count(), 1 + html.matches("<svg").count());
    assert_eq!(html.matches("<figure>").count(), html.matches("<figcaption>").count());
    assert_eq!(html.matches("<svg").count(), html.matches(" role=\"img\"").count());
    assert_eq!(html.matches("<h1>").count(), 1);
    for cell in html.split("<th").skip(1).filter(|cell| !cell.starts_with("ead")) {
        assert!(cell.starts_with(" scope=\""), "{cell:.40}");
    }
    for caption in html.split("<figcaption><strong>Figure ").skip(1) {
        let sentence = caption.split("</strong>").next().unwrap_or("");
        assert!(sentence.len() > 12, "a caption says what to conclude: {sentence}");
    }
}

/// Panics unless each start tag has its end tag, in order, and each reference ends.
fn balanced(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = html.trim_start_matches("<!DOCTYPE html>");
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert!(!text.contains('>') || open.last() == Some(&"style") || tag.starts_with("style"));
        for reference in text.split('&').skip(1).chain(tag.split('&').skip(1)) {
            let name = reference.split_once(';').expect("a reference ends").0;
            assert!(["lt", "gt", "amp", "quot", "apos", "#39"].contains(&name), "{name}");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "an end tag has its start tag");
        } else {
            let name = tag.split([' ', '/']).next().expect("a name");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if !VOID.contains(&name) && !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "all elements are closed");
}
