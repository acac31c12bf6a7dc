/**
 * One call of the store over all its attempts: the ends from outside (its deadline, its caller's signal, the
 * closing of the store) and the possible effects of its attempts.
 *
 * The caller gets an answer at the deadline even when the engine, its network thread or the body hangs. An
 * outcome that became unknown in any attempt stays unknown until an attempt succeeds: the certain failure of
 * a later attempt says nothing about the earlier one. That holds for errors of the body too while the commit of
 * the earlier attempt may be in flight: the body has decided on a state that this commit may still change.
 */
import { systemClock } from "../runtime/clock.ts";
import { backoffMs } from "../runtime/retry.ts";
import type { Deadlines } from "./deadlines.ts";
import { type CommitOutcome, type ReadOptions, StoreError, type StoreErrorKind } from "./store.ts";

const BACKOFF_BASE_MS = 5;
/**
 * After a conflict another commit has won, so a longer pause relieves nothing. A growing pause would let
 * later transactions overtake this one again and again, until its deadline. About the time of a commit is
 * enough to let the other one finish.
 */
const CONFLICT_BACKOFF_MS = 10;
/** From harmless to worst. */
const OUTCOMES: readonly CommitOutcome[] = ["no", "maybe_settled", "maybe_in_flight"];

/** The part of an attempt that the operation needs. */
export interface RunningAttempt {
  /** True from the moment the commit is sent until its result is known. */
  readonly committing: boolean;
  cancel(): void;
}

export interface RetryRules extends ReadOptions {
  readonly maxAttempts?: number;
  readonly onUnknown: "safe" | "unsafe";
  readonly maxRetryDelayMs: number;
  /** Those of the store. */
  readonly deadlines: Deadlines;
}

export class Operation {
  readonly #rules: RetryRules;
  readonly #endsAt: number;
  /** Answers the caller before the current attempt does. */
  #reject: (error: StoreError) => void = () => {};
  /** Cuts a pause short. Made only after a failed attempt; most operations need one attempt. */
  #pausing: AbortController | undefined;
  #ended: StoreError | undefined;
  #current: RunningAttempt | undefined;
  #committed: CommitOutcome = "no";
  #attempts = 0;
  #last: StoreError | undefined;

  constructor(rules: RetryRules) {
    this.#rules = rules;
    this.#endsAt = performance.now() + rules.deadlineMs;
  }

  get remainingMs(): number {
    return this.#endsAt - performance.now();
  }

  /** On the clock of `performance.now()`. */
  get endsAt(): number {
    return this.#endsAt;
  }

  /** Runs `once` until it succeeds, fails permanently, or the operation is ended. */
  async run<T>(once: (attempt: number) => Promise<T>): Promise<T> {
    const { signal } = this.#rules;
    const abort = () => this.end("aborted", "the operation was aborted");
    this.#rules.deadlines.watch(this);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      if (signal?.aborted) abort();
      return await new Promise<T>((resolve, reject) => {
        this.#reject = reject;
        this.#attemptUntilDone(once).then(resolve, reject);
      });
    } catch (error) {
      throw error instanceof StoreError ? this.#final(error) : error;
    } finally {
      this.#rules.deadlines.forget(this);
      signal?.removeEventListener("abort", abort);
    }
  }

  get hasEnded(): boolean {
    return this.#ended !== undefined;
  }

  /** Ends the operation when its deadline has passed. */
  checkDeadline(nowMs: number): void {
    if (nowMs >= this.#endsAt) this.end("deadline", "the operation's deadline passed");
  }

  /** The current attempt; the end of the operation cancels it. */
  set current(attempt: RunningAttempt) {
    this.#current = attempt;
    if (this.#ended !== undefined) attempt.cancel();
  }

  /** Ends the operation now. A commit that was sent may still take effect. */
  end(kind: StoreErrorKind, message: string): void {
    if (this.#ended !== undefined) return;
    this.#ended = new StoreError(kind, message, { cause: this.#last });
    if (this.#current?.committing) this.#note("maybe_in_flight");
    this.#reject(this.#ended);
    this.#pausing?.abort();
    this.#current?.cancel();
  }

  async #attemptUntilDone<T>(once: (attempt: number) => Promise<T>): Promise<T> {
    for (;;) {
      if (this.#ended !== undefined) throw this.#ended;
      this.#attempts += 1;
      try {
        return await once(this.#attempts);
      } catch (error) {
        if (!(error instanceof StoreError))
          throw this.#committed === "maybe_in_flight" ? early(error) : error;
        this.#last = error;
        this.#note(error.committed);
        if (!this.#again(error)) throw error;
      }
      const delayMs = backoffMs(this.#attempts, {
        baseMs: BACKOFF_BASE_MS,
        maxMs: Math.min(
          this.#last.kind === "conflict" ? CONFLICT_BACKOFF_MS : Number.POSITIVE_INFINITY,
          this.#rules.maxRetryDelayMs,
        ),
      });
      this.#pausing = new AbortController();
      await systemClock.sleep(delayMs, this.#pausing.signal);
    }
  }

  #again(error: StoreError): boolean {
    if (this.#ended !== undefined) return false;
    const { maxAttempts = Number.POSITIVE_INFINITY, onUnknown } = this.#rules;
    if (this.#attempts >= maxAttempts) return false;
    if (error.kind === "commit_unknown") return onUnknown === "safe";
    // A deadline of the client library ends this attempt only. The operation has time left, or it would have
    // been ended.
    return error.retryable || error.kind === "deadline";
  }

  #note(committed: CommitOutcome): void {
    if (OUTCOMES.indexOf(committed) > OUTCOMES.indexOf(this.#committed)) this.#committed = committed;
  }

  /**
   * `commit_unknown` once any attempt may have taken effect, because every other kind means that none did.
   */
  #final(error: StoreError): StoreError {
    const unknown = this.#committed !== "no" && error.kind !== "fatal";
    return new StoreError(unknown ? "commit_unknown" : error.kind, error.message, {
      committed: this.#committed,
      details: { ...error.details, reason: error.kind, label: this.#rules.label, attempts: this.#attempts },
      cause: error.cause,
    });
  }
}

/** `cause` is the error of a body. */
function early(cause: unknown): StoreError {
  const message = "the body failed while the commit of an earlier attempt may be in flight";
  return new StoreError("commit_unknown", message, { committed: "maybe_in_flight", cause });
}
