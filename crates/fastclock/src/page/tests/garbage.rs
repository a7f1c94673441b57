//! Pages with arbitrary content.

use super::*;

/// The words of a slot, unsigned and signed.
fn fields(slot: &Slot) -> (Vec<&AtomicU64>, [&AtomicI64; 5]) {
    let Slot { mono, real, boot, tai, .. } = slot;
    let line = [&slot.base, &slot.whole, &slot.fraction, &slot.bound, &slot.growth];
    let limits = [&slot.grace, &slot.reason, &slot.span];
    let previous = [&slot.previous_base, &slot.previous_whole, &slot.previous_fraction];
    let nsec = [&mono.nsec, &real.nsec, &boot.nsec, &tai.nsec];
    let signed = [&mono.sec, &real.sec, &boot.sec, &tai.sec, &slot.previous_mono];
    ([&line[..], &limits, &previous, &nsec].concat(), signed)
}

/// Fills a page with words, in their order.
fn fill(page: &Page, words: &[u64]) {
    page.head.store(words[0], Relaxed);
    for (slot, words) in page.slots.iter().zip(words[1..].chunks(22)) {
        let (unsigned, signed) = fields(slot);
        for (field, word) in unsigned.into_iter().zip(words) {
            field.store(*word, Relaxed);
        }
        for (field, word) in signed.into_iter().zip(&words[15..]) {
            field.store(*word as i64, Relaxed);
        }
    }
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..5,
        Just(u64::MAX),
        Just(1 << 63),
        (0_u32..64).prop_map(|bit| 1 << bit)
    ]
}

/// Every answer must be the kernel's, or agree with it.
fn check(page: &Page, trust: &Trust, machine: &Machine) -> Result<(), TestCaseError> {
    let reader = reader(page, trust, machine);
    for round in 0_u64..3 {
        for clock in CLOCKS {
            let before = machine.reads.get();
            let answer = reader.bounded(clock, Order::Ordered);
            let kernel = machine.kernel(clock.id());
            prop_assert!(answer.time.0.abs_diff(kernel) < 1_100_000, "{answer:?} for {kernel}");
            let spec = reader.timespec(clock, Order::Unordered);
            let nanos = Nanos::from_timespec(spec.sec, spec.nsec);
            prop_assert!(nanos.0.abs_diff(machine.kernel(clock.id())) < 1_100_000);
            prop_assert!((0..1_000_000_000).contains(&spec.nsec));
            prop_assert!(machine.reads.get() - before < 3_000_000, "looped");
        }
        machine.pass(1 << (10 * round));
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_page_of_garbage_gives_the_kernels_answer(words in proptest::collection::vec(word(), 45)) {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        fill(&page, &words);
        check(&page, &trust, &machine)?;
        let _ = Writer::resume(&page, [0; 2], 1);
    }

    /// A good page that was used, and then gets one wrong word under a new head.
    #[test]
    fn a_damaged_page_gives_the_kernels_answer_or_what_agrees(
        index in 0_usize..20, value in word(), bit in 0_u32..64, whole: bool, died: bool,
    ) {
        let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
        let mut writer = Writer::create(&page, [0; 2], 1);
        let content = machine.content(machine.now() - 1_000, 0, 1 << 40);
        writer.publish(content);
        prop_assert_eq!(mono(&reader(&page, &trust, &machine)).declined, None);
        writer.publish(content);
        let slot = &page.slots[(page.head.load(Relaxed) & 1) as usize];
        let (unsigned, signed) = fields(slot);
        let changed = |old: u64| if whole { value } else { old ^ 1 << bit };
        match unsigned.get(index) {
            Some(word) => word.store(changed(word.load(Relaxed)), Relaxed),
            None => {
                let word = signed[index - 15];
                let old = u64::from_ne_bytes(word.load(Relaxed).to_ne_bytes());
                word.store(changed(old) as i64, Relaxed);
            }
        }
        if died {
            page.head.fetch_or(OWNER_DIED, Relaxed);
        }
        // A line with a wrong rate agrees at first. The next head shows the fault; the writer's
        // guards detect it earlier.
        if index != 2 {
            check(&page, &trust, &machine)?;
        } else {
            let answer = mono(&reader(&page, &trust, &machine));
            prop_assert!(answer.time.0.abs_diff(machine.kernel(ClockId::Monotonic)) < 1_100_000);
        }
    }
}
