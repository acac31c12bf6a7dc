/** The usage of context, tokens and money, as an agent reports it. */
import { toSnake } from "../../case-convert.ts";
import type { WorkState } from "../state.ts";
import { ContextGrowth } from "./context-growth.ts";

export interface Usage {
  /** The tokens that the model has processed since the run began. */
  readonly tokensConsumed?: number;
  /** The parts of `tokensConsumed` that the vendor of the model reports. Cached: read from the vendor's cache. */
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly cachedTokens?: number;
  /** The tokens in the context now. With `contextLimit` they give its utilization. */
  readonly contextTokens?: number;
  readonly contextLimit?: number;
  /** The utilization of the context, from 0 to 1, of an agent that does not know its tokens and its limit. */
  readonly contextUtilization?: number;
  readonly toolsInvoked?: number;
  /** The model, by its vendor's name. */
  readonly model?: string;
  /** The money spent since the run began. Absent currency: US dollars. */
  readonly cost?: { readonly amount: number; readonly currency?: string };
}

/** Records reports in the metrics of the state, with the growth of the context that follows from them. */
export class UsageRecorder {
  readonly #growth = new ContextGrowth();

  record(metrics: WorkState["metrics"], usage: Usage): void {
    Object.assign(metrics, toSnake(usage));
    const step = usage.contextTokens === undefined ? undefined : this.#growth.record(usage.contextTokens);
    if (step !== undefined) metrics.context_step_tokens = step;
  }
}
