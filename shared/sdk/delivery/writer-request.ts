/**
 * The request of a queueable command to a writer. It ends early enough to leave time for the queue, and at once if the last command
 * already had no answer: commands in a row must not each wait for a writer that is down.
 */
import type { Bus } from "../../bus/bus.ts";
import type { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { ClientConnection } from "../request/connection.ts";
import { ATTEMPT_MS_MIN, type FailedAttempt, repeatRequest } from "../request/request.ts";

/** Why a command was not delivered in one way. */
export interface DeliveryFailure {
  readonly error: FleetError;
  /** True: an attempt had no answer and may have been carried out. */
  readonly sent: boolean;
}

/** How long to wait for a writer before the queue is used: twice the time of a restart. */
const ABSENT_MS = 1_000;
/** The time that is left for the queue to acknowledge a command. */
export const QUEUE_MS = 1_500;
/** The wait for an answer while the writer, or the queue, is silent. */
export const SILENT_MS = 200;

export class WriterRequest {
  readonly #connection: ClientConnection;
  readonly #clock: Clock;
  /** No answer to the last command, nor to any other within one attempt: under load a single answer may be late. */
  #isSilent = false;
  #answeredAt = Number.NEGATIVE_INFINITY;

  constructor(connection: ClientConnection, clock: Clock) {
    this.#connection = connection;
    this.#clock = clock;
  }

  /**
   * Repeats the request while a writer answers that a retry can help, and for a moment while none answers. `budget`: the milliseconds of
   * the whole delivery, which ends at `end`. `isOpen`: an earlier delivery of the command ended with TIMEOUT. Throws the refusal of a writer.
   */
  async send(
    bus: Bus,
    subject: string,
    body: Uint8Array,
    {
      budget,
      end,
      signal,
      isOpen,
    }: { budget: number; end: number; signal: AbortSignal | undefined; isOpen: boolean },
  ): Promise<{ readonly answer: unknown } | DeliveryFailure> {
    const clock = this.#clock;
    const writerEnd = end - Math.min(budget / 2, QUEUE_MS);
    const absentEnd = clock.monotonic() + (this.#isSilent ? 0 : Math.min(budget / 2, ABSENT_MS));
    const attemptMs = this.#isSilent ? SILENT_MS : LIMITS.request_attempt_ms_default;
    let timeout: FleetError | undefined;
    const result = await repeatRequest<DeliveryFailure>(
      { bus, clock, subject, body, attemptMs, end: writerEnd, signal, isOpen },
      async (failed, nextAt) => {
        const { error, answered } = failed;
        this.#note(failed);
        if (error.code === "TIMEOUT") timeout = error;
        const sent = timeout !== undefined;
        // An earlier command is still queued. The wait gives it time to be applied; then this one is queued behind it.
        const isBehind = error.details.after !== undefined;
        if (isBehind && nextAt + ATTEMPT_MS_MIN >= writerEnd) {
          await clock.sleep(Math.max(0, writerEnd - clock.monotonic()), signal);
          return { error, sent };
        }
        if (answered && nextAt + ATTEMPT_MS_MIN >= end && !sent) throw error;
        const isAbsent =
          !answered && (error.code === "TIMEOUT" || nextAt >= absentEnd || !this.#connection.isUp);
        const isLate = nextAt + ATTEMPT_MS_MIN >= (answered ? end : writerEnd);
        return isAbsent || isLate ? { error: timeout ?? error, sent } : undefined;
      },
    );
    if ("answer" in result) this.#note(undefined);
    return result;
  }

  #note(failed: FailedAttempt | undefined): void {
    const now = this.#clock.monotonic();
    if (failed === undefined || failed.answered) {
      this.#answeredAt = now;
      this.#isSilent = false;
      return;
    }
    const isLongAgo = now - this.#answeredAt >= LIMITS.request_attempt_ms_default;
    this.#isSilent = failed.error.code !== "TIMEOUT" || isLongAgo;
  }
}
