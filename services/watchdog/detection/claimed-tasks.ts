/**
 * What agents say that they have, until the store has confirmed it: an agent is asked about once for each task and fence, and again, later
 * and later, while the store says otherwise, since a beat may come before the commit is seen.
 */

import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { createWake, type Wake } from "../../../shared/runtime/clock.ts";
import type { Heard } from "../../../shared/service-host/heartbeat-subscription.ts";
import { type Owning, owned } from "./ownership.ts";

const ASK_AGAIN_MS = { first: 500, last: 30_000 };
const PAGE = 500;

export interface Claim extends Owning {
  readonly agentType: string;
  readonly heard: Heard;
  /** In attentive milliseconds, as all times here. */
  heardAt: number;
  askAt: number;
  pauseMs: number;
  isAsked: boolean;
}

export class Claims {
  /** By agent, the one that said something new longest ago first: it gives way when there are more than are heard. */
  readonly #claims = new Map<string, Claim>();
  /** Notified when there is one to ask about. */
  readonly wake: Wake = createWake();

  /** `heard` says that it has this task under this fence. */
  hear(heard: Heard, task: string, fence: number, nowMs: number): void {
    const { tenant } = heard;
    const { agent_id: agentId, agent_type: agentType } = heard.beat;
    const name = `${tenant}/${agentId}`;
    const known = this.#claims.get(name);
    if (known?.heard === heard && known.task === task && known.fence === fence) {
      known.heardAt = nowMs;
      return;
    }
    const asking = { heardAt: nowMs, askAt: nowMs, pauseMs: ASK_AGAIN_MS.first, isAsked: false };
    this.#claims.delete(name);
    this.#claims.set(name, { tenant, task, fence, agentId, agentType, heard, ...asking });
    if (this.#claims.size > LIMITS.agents_remembered_count_max)
      this.#claims.delete(this.#claims.keys().next().value as string);
    this.wake.notify();
  }

  /** Those that it is time to ask about, at most a page; whoever has not been asked about yet comes before those who lied. */
  due(nowMs: number): Claim[] {
    const [first, again]: [Claim[], Claim[]] = [[], []];
    for (const claim of this.#claims.values()) {
      if (claim.askAt > nowMs) continue;
      if (claim.isAsked) again.push(claim);
      else if (first.push(claim) === PAGE) break;
    }
    return [...first, ...again].slice(0, PAGE);
  }

  /** Asks the store; resolves with those that are true, which are no claims any more. */
  async settle(
    repository: Pick<CheckpointRepository, "recovery">,
    asked: readonly Claim[],
    nowMs: number,
  ): Promise<Claim[]> {
    const answers = await owned(repository, asked);
    for (const [i, claim] of asked.entries()) {
      const name = `${claim.tenant}/${claim.agentId}`;
      // It says something else meanwhile.
      if (this.#claims.get(name) !== claim) continue;
      const isGone = nowMs - claim.heardAt > 2 * ASK_AGAIN_MS.last;
      if (answers[i] || isGone) this.#claims.delete(name);
      claim.isAsked = true;
      claim.askAt = nowMs + claim.pauseMs;
      claim.pauseMs = Math.min(2 * claim.pauseMs, ASK_AGAIN_MS.last);
    }
    return asked.filter((_, i) => answers[i]);
  }
}
