; A line that makes up for a difference is within its bound: keeper.rs, over the real numbers.
;
; The line begins `off` from the kernel's time and is bent by `bend` per tick towards it. It holds for
; `lasts` ticks. Its bound is `off` at the base and grows by `overshoot` per tick, which
; keeper.rs rounds up; the uncertainty of the estimate is added to both sides.
(set-logic ALL)
(declare-const off Real)
(declare-const bend Real)
(declare-const wide Real)
(declare-const lasts Real)
(declare-const passed Real)
(declare-const ratio Real)
(declare-const paid Real)
(declare-const drift Real)
(declare-const growth Real)
(define-fun distance ((x Real)) Real (ite (< x 0.0) (- x) x))
(assert (and (<= 0.0 off) (<= 0.0 bend) (< 0.0 wide) (< 0.0 lasts)))
(assert (and (<= 0.0 passed) (<= passed lasts)))
; correction() takes at most half of a tick's length.
(define-fun LARGEST () Real (/ 1.0 2.0))
(assert (<= bend (* LARGEST wide)))
; content() in keeper.rs
(assert (= (* ratio lasts) (* 2.0 off)))
(define-fun overshoot () Real (ite (< ratio bend) (- bend ratio) 0.0))
; Claims

(echo "a tick never becomes negative")
(push)
(assert (not (< 0.0 (- wide bend))))
(check-sat)
(pop)

(echo "what is still to be made up for is within the bound to the line's end")
(push)
; off / lasts * passed is no more than off
(assert (= (* ratio passed) paid))
(assert (<= paid (* 2.0 off)))
(assert (not (<= (distance (- off (* bend passed))) (+ off (* overshoot passed)))))
(check-sat)
(pop)

(echo "that share is no more than the difference itself")
(push)
(assert (not (<= (* ratio passed) (* 2.0 off))))
(check-sat)
(pop)

(echo "what the estimate leaves open is covered by its own growth")
(push)
(assert (<= (distance drift) growth))
(assert (<= 0.0 growth))
(assert (not (<= (distance (* drift passed)) (* growth passed))))
(check-sat)
(pop)
