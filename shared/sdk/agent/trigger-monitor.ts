/**
 * The agent's side of the triggers: between checkpoints it watches the same signs that the writer judges. Whose word counts: the agent's
 * own thresholds where it was given some; else the fleet's policy, which the writer applies to each checkpoint; and while no writer
 * answers, the defaults.
 */
import type { FiredTrigger } from "../../protocol/checkpoint.ts";
import { DEFAULT_POLICY } from "../../protocol/policy.ts";
import { evaluateTriggers, type TriggerSigns, type TriggerThresholds } from "../../protocol/triggers.ts";

/** What a checkpoint came to, as far as the triggers go. */
export type Judged =
  | { readonly outcome: "committed"; readonly handoffAdvised?: readonly FiredTrigger[] | undefined }
  | { readonly outcome: "queued" | "spooled" };

export class TriggerMonitor {
  readonly #isOwn: boolean;
  readonly #thresholds: TriggerThresholds;
  /** What the writer said last; undefined while the last checkpoint was judged by nobody. */
  #advice: readonly FiredTrigger[] | undefined = [];
  readonly #asked = new Set<string>();

  constructor(own?: Partial<TriggerThresholds>) {
    this.#isOwn = own !== undefined;
    this.#thresholds = { ...DEFAULT_POLICY.triggers, ...own };
  }

  heard(answer: Judged): void {
    this.#advice = answer.outcome === "committed" ? (answer.handoffAdvised ?? []) : undefined;
  }

  /**
   * The sign that a writer should judge now, because by the defaults it is time to hand off; each is asked about once, and again
   * with every checkpoint that is written anyway.
   */
  toAsk(signs: TriggerSigns): FiredTrigger | undefined {
    if (this.#isOwn) return undefined;
    const found = this.#here(signs).find(({ reason }) => !this.#asked.has(reason));
    if (found !== undefined) this.#asked.add(found.reason);
    return found;
  }

  /** Why it is time to hand off, the weightiest reason first; empty when it is not. */
  fired(signs: TriggerSigns): readonly FiredTrigger[] {
    const here = this.#here(signs);
    if (this.#isOwn || this.#advice === undefined) return here;
    // Nobody need be asked whether a wish is one.
    const wished = here.filter(({ reason }) => reason === "explicit_request");
    return this.#advice.length > 0 ? this.#advice : wished;
  }

  #here(signs: TriggerSigns): FiredTrigger[] {
    return evaluateTriggers(signs, this.#thresholds);
  }
}
