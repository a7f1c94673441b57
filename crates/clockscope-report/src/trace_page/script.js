// The page of clockscope trace: tables that sort, and a flame graph to zoom into and to search.
// The page is complete without this; nothing here loads anything.
'use strict';
(() => {
  const make = (name, text, parent) => {
    const element = document.createElement(name);
    if (text) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };

  // ---- Tables ----

  // What a cell is sorted by: its number, or its text. A cell without a number in a column of
  // numbers comes last when the greatest is first.
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    return 'key' in cell.dataset ? Number(cell.dataset.key) : cell.textContent;
  };
  const compare = (a, b) => {
    if (typeof a === 'number' && typeof b === 'number') return a - b;
    if (typeof a === 'number') return 1;
    if (typeof b === 'number') return -1;
    return a < b ? -1 : Number(a > b);
  };

  function sort(table, column) {
    const headings = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const isWords = rows.every(row => !('key' in row.cells[column].dataset));
    const before = headings[column].getAttribute('aria-sort');
    // Words begin with A, numbers with the greatest; the same heading again turns it round.
    const first = isWords ? 'ascending' : 'descending';
    const second = isWords ? 'descending' : 'ascending';
    const order = before === first ? second : first;
    headings.forEach(heading => heading.removeAttribute('aria-sort'));
    headings[column].setAttribute('aria-sort', order);
    const sign = order === 'ascending' ? 1 : -1;
    rows.sort((a, b) => sign * compare(keyOf(a, column), keyOf(b, column)));
    body.append(...rows);
  }

  for (const table of document.querySelectorAll('table.sortable')) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const words = heading.textContent;
      heading.textContent = '';
      const button = make('button', words, heading);
      button.type = 'button';
      button.title = 'Sort by ' + words;
      button.addEventListener('click', () => sort(table, column));
    });
  }

  // ---- Flame graph ----

  const LEVEL = 21;
  // Frames of a smaller share of the view are not drawn.
  const DRAWN_FROM = 0.001;
  // Frames of a smaller share of the view are drawn without room for a name.
  const NAMED_FROM = 0.012;

  const count = number => number.toLocaleString('en');
  const percent = (part, whole) => (whole > 0 ? (100 * part / whole).toPrecision(3) : '0') + ' %';

  // The frames as a tree: each has its caller, its callees, and where it begins, in calls.
  function treeOf(data) {
    const above = [];
    return data.frames.map(([depth, name, calls]) => {
      above.length = depth;
      const caller = above[depth - 1] || null;
      const start = caller ? caller.end : 0;
      const frame = {
        depth, calls, start, caller, end: start, callees: [],
        name: data.names[name], note: data.notes[data.note_of[name]],
        colour: data.colour_of[name], found: false, button: null,
      };
      if (caller) {
        caller.callees.push(frame);
        // Until its own callees come, `end` is where the next callee begins.
        caller.end += calls;
      }
      above.push(frame);
      return frame;
    });
  }

  function flame(box, data) {
    const frames = treeOf(data);
    const whole = frames[0];
    let view = whole;
    let current = whole;
    let rows = [];

    const bar = make('div', '', box);
    bar.className = 'flame-bar';
    const reset = make('button', 'Whole (Esc)', bar);
    reset.type = 'button';
    const label = make('label', 'Search ', bar);
    const search = make('input', '', label);
    search.type = 'search';
    search.placeholder = 'function or file';
    const matches = make('output', '', bar);
    const scroller = make('div', '', box);
    scroller.className = 'flame-frames';
    const area = make('div', '', scroller);
    const detail = make('p', '', box);
    detail.className = 'flame-detail';
    detail.setAttribute('aria-live', 'polite');
    const HELP = 'Click or Enter: zoom. Arrows: callers, callees, neighbours. Esc: back to the whole.';
    detail.textContent = HELP;

    const describe = frame => {
      const note = frame.note ? ' [' + frame.note + ']' : '';
      const part = view === whole ? '' : ', ' + percent(frame.calls, view.calls) + ' of the view';
      return frame.name + note + ': ' + count(frame.calls) + ' calls, ' +
        percent(frame.calls, whole.calls) + ' of all' + part;
    };

    // One frame can be reached by Tab: the one where the reader was last.
    const choose = (frame, focus) => {
      if (current.button) current.button.tabIndex = -1;
      current = frame;
      frame.button.tabIndex = 0;
      detail.textContent = describe(frame);
      if (focus) frame.button.focus();
    };

    const place = frame => {
      const isAbove = frame.depth < view.depth;
      const share = isAbove ? 1 : frame.calls / view.calls;
      const button = make('button', share < NAMED_FROM ? '' : frame.name, area);
      button.type = 'button';
      button.tabIndex = -1;
      button.className = 'c' + frame.colour + (share < NAMED_FROM ? ' thin' : '') +
        (isAbove ? ' above' : '') + (frame.found ? ' found' : '');
      button.style.top = frame.depth * LEVEL + 'px';
      button.style.left = isAbove ? '0' : 100 * (frame.start - view.start) / view.calls + '%';
      button.style.width = 100 * share + '%';
      button.title = describe(frame);
      button.setAttribute('aria-label', button.title);
      frame.button = button;
      (rows[frame.depth] = rows[frame.depth] || []).push(frame);
      button.addEventListener('click', () => zoom(frame));
      button.addEventListener('focus', () => choose(frame, false));
      button.addEventListener('mouseenter', () => { detail.textContent = describe(frame); });
    };

    const draw = () => {
      area.textContent = '';
      frames.forEach(frame => { frame.button = null; });
      rows = [];
      for (let caller = view.caller; caller; caller = caller.caller) place(caller);
      const waiting = [view];
      while (waiting.length > 0) {
        const frame = waiting.pop();
        place(frame);
        const wide = callee => callee.calls / view.calls >= DRAWN_FROM;
        waiting.push(...frame.callees.filter(wide).reverse());
      }
      area.style.height = rows.length * LEVEL + 'px';
      box.dataset.view = view.name;
    };

    const zoom = frame => {
      const hadFocus = area.contains(document.activeElement);
      view = frame;
      draw();
      choose(frame, hadFocus);
    };

    const find = () => {
      const wanted = search.value.trim().toLowerCase();
      let found = 0;
      let calls = 0;
      for (const frame of frames) {
        const text = (frame.name + ' ' + frame.note).toLowerCase();
        frame.found = wanted !== '' && text.includes(wanted);
        // What is below a frame that was found is counted with it.
        frame.inFound = frame.caller !== null && (frame.caller.found || frame.caller.inFound);
        if (frame.found) found += 1;
        if (frame.found && !frame.inFound) calls += frame.calls;
      }
      matches.textContent = wanted === '' ? '' :
        count(found) + ' found, in ' + percent(calls, whole.calls) + ' of all calls';
      draw();
      choose(current.button ? current : view, false);
    };

    const neighbour = (frame, step) => {
      const row = rows[frame.depth];
      return row[row.indexOf(frame) + step];
    };
    const moves = {
      ArrowUp: frame => frame.caller,
      ArrowDown: frame => frame.callees.find(callee => callee.button),
      ArrowLeft: frame => neighbour(frame, -1),
      ArrowRight: frame => neighbour(frame, 1),
      Home: () => whole,
    };
    area.addEventListener('keydown', event => {
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      const to = move(current);
      if (to && to.button) choose(to, true);
    });
    box.addEventListener('keydown', event => {
      if (event.key !== 'Escape') return;
      if (event.target === search && search.value !== '') {
        search.value = '';
        find();
      } else {
        zoom(whole);
      }
      event.preventDefault();
    });
    reset.addEventListener('click', () => zoom(whole));
    search.addEventListener('input', find);
    draw();
    whole.button.tabIndex = 0;
  }

  for (const box of document.querySelectorAll('.flame')) {
    const data = JSON.parse(box.parentElement.querySelector('.flame-data').textContent);
    if (!data || data.frames.length === 0) continue;
    box.hidden = false;
    box.parentElement.querySelector('.flame-picture').hidden = true;
    flame(box, data);
  }
})();
