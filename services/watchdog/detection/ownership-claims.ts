/**
 * The claims of ownership in heartbeats that the store has not confirmed yet. The store is asked once for
 * each agent, task and fence. While it denies a claim it is asked again after growing pauses, because a
 * heartbeat may arrive before its commit is visible.
 */
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { createWake, type Wake } from "../../../shared/runtime/clock.ts";
import type { LatestHeartbeat } from "../../../shared/service-host/heartbeat-subscription.ts";
import { areOwners, type Ownership } from "./ownership.ts";

const CHECK_AGAIN_MS = { first: 500, last: 30_000 };
const PAGE = 500;

/** All times are those of the observed clock. */
export interface OwnershipClaim extends Ownership {
  readonly agentType: string;
  readonly heard: LatestHeartbeat;
  heardAt: number;
  checkAt: number;
  pauseMs: number;
  isChecked: boolean;
}

export class OwnershipClaims {
  /** By agent, the oldest claim first: the oldest is forgotten when there are too many. */
  readonly #claims = new Map<string, OwnershipClaim>();
  /** Notified when there is a new claim. */
  readonly wake: Wake = createWake();

  get size(): number {
    return this.#claims.size;
  }

  /** Keeps the claim of a heartbeat that its agent owns this task under this fence. */
  add(heard: LatestHeartbeat, task: string, fence: number, nowMs: number): void {
    const { tenant } = heard;
    const { agent_id: agentId, agent_type: agentType } = heard.beat;
    const name = `${tenant}/${agentId}`;
    const known = this.#claims.get(name);
    if (known?.heard === heard && known.task === task && known.fence === fence) {
      known.heardAt = nowMs;
      return;
    }
    const times = { heardAt: nowMs, checkAt: nowMs, pauseMs: CHECK_AGAIN_MS.first, isChecked: false };
    this.#claims.delete(name);
    this.#claims.set(name, { tenant, task, fence, agentId, agentType, heard, ...times });
    if (this.#claims.size > LIMITS.agents_remembered_count_max)
      this.#claims.delete(this.#claims.keys().next().value as string);
    this.wake.notify();
  }

  /** A page of claims to check now. New claims come before those that the store has denied. */
  due(nowMs: number): OwnershipClaim[] {
    const [unchecked, denied]: [OwnershipClaim[], OwnershipClaim[]] = [[], []];
    for (const claim of this.#claims.values()) {
      if (claim.checkAt > nowMs) continue;
      if (claim.isChecked) denied.push(claim);
      else if (unchecked.push(claim) === PAGE) break;
    }
    return [...unchecked, ...denied].slice(0, PAGE);
  }

  /** Resolves with the claims that the store confirms, and forgets them. */
  async check(
    repository: Pick<CheckpointRepository, "recoveryActions">,
    claims: readonly OwnershipClaim[],
    nowMs: number,
  ): Promise<OwnershipClaim[]> {
    const answers = await areOwners(repository, claims);
    for (const [i, claim] of claims.entries()) {
      const name = `${claim.tenant}/${claim.agentId}`;
      // The agent has made another claim since.
      if (this.#claims.get(name) !== claim) continue;
      const isOld = nowMs - claim.heardAt > 2 * CHECK_AGAIN_MS.last;
      if (answers[i] || isOld) this.#claims.delete(name);
      claim.isChecked = true;
      claim.checkAt = nowMs + claim.pauseMs;
      claim.pauseMs = Math.min(2 * claim.pauseMs, CHECK_AGAIN_MS.last);
    }
    return claims.filter((_, i) => answers[i]);
  }
}
