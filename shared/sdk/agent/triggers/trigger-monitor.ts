/**
 * The agent's side of the triggers: between checkpoints it watches the signs that the writer judges. The agent's own thresholds decide,
 * if it has any; otherwise the fleet's policy, which the writer applies to each checkpoint. While no writer answers, the default
 * thresholds decide.
 */
import type { FiredTrigger } from "../../../protocol/checkpoint.ts";
import { DEFAULT_POLICY } from "../../../protocol/policy.ts";
import { evaluateTriggers, type TriggerSigns, type TriggerThresholds } from "../../../protocol/triggers.ts";

/** The members of a checkpoint's outcome that concern the triggers. */
export type JudgedCheckpoint =
  | { readonly outcome: "committed"; readonly handoffAdvised?: readonly FiredTrigger[] | undefined }
  | { readonly outcome: "queued" | "spooled" };

export class TriggerMonitor {
  readonly #hasOwn: boolean;
  readonly #thresholds: TriggerThresholds;
  /** The writer's last advice; undefined if no writer has judged the last checkpoint. */
  #advice: readonly FiredTrigger[] | undefined = [];
  readonly #submitted = new Set<string>();

  constructor(own?: Partial<TriggerThresholds>) {
    this.#hasOwn = own !== undefined;
    this.#thresholds = { ...DEFAULT_POLICY.triggers, ...own };
  }

  /** Records the writer's advice on a checkpoint. */
  judged(outcome: JudgedCheckpoint): void {
    this.#advice = outcome.outcome === "committed" ? (outcome.handoffAdvised ?? []) : undefined;
  }

  /**
   * A trigger that fires by the default thresholds and that a checkpoint should submit to the writer now. Each is returned once;
   * every later checkpoint submits it again anyway.
   */
  unjudged(signs: TriggerSigns): FiredTrigger | undefined {
    if (this.#hasOwn) return undefined;
    const found = this.#evaluate(signs).find(({ reason }) => !this.#submitted.has(reason));
    if (found !== undefined) this.#submitted.add(found.reason);
    return found;
  }

  /** The triggers that fire, the weightiest first; empty if the task stays with this agent. */
  fired(signs: TriggerSigns): readonly FiredTrigger[] {
    const fired = this.#evaluate(signs);
    if (this.#hasOwn || this.#advice === undefined) return fired;
    // A request of the agent itself needs no judgement.
    const requested = fired.filter(({ reason }) => reason === "explicit_request");
    return this.#advice.length > 0 ? this.#advice : requested;
  }

  #evaluate(signs: TriggerSigns): FiredTrigger[] {
    return evaluateTriggers(signs, this.#thresholds);
  }
}
