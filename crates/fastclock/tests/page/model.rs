//! The models of the page's protocol: `make prove` runs them, with `--cfg fastclock_model`.

use fastclock::page::model;

macro_rules! models {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            model::$name();
        }
    )*};
}

models! {
    a_reader_sees_whole_lines_and_no_time_before_the_last
    two_threads_of_a_process_see_no_time_before_that_of_the_other
    two_processes_see_no_time_before_that_of_the_other
    three_publications_do_not_mix_under_a_reader
    a_withdrawal_and_a_return_do_not_set_time_back
    a_writer_may_be_killed_anywhere_and_another_goes_on
    a_late_comparison_does_not_undo_what_another_thread_found
    a_copy_is_whole_before_its_head_is_trusted
    a_head_that_is_set_back_shows_nothing_uncompared
}
