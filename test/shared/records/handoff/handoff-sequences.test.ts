// Random sequences of commands and of the coordinators' operations, checked against the invariants of
// handoffs.

import fc from "fast-check";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createChainVerifier } from "../../../../shared/integrity/chain.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import {
  HANDOFF_TABLE,
  type HandoffState,
  isOpenHandoff,
} from "../../../../shared/protocol/handoff-states.ts";
import type { CommandOp } from "../../../../shared/protocol/operations.ts";
import { isOffer } from "../../../../shared/records/outbox/outbox.ts";
import { acknowledge, handoffInput, offering } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, finalize, input, send } from "../../../harness/records/records.ts";
import { type AuditRecord, TestTasks } from "../../../harness/records/tasks.ts";

describe.each(ENGINES)("handoffs in any order on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine, {
      defaults: { next_agent: { by_next_phase: { complete: "qa" } } },
      tenants: {},
    });
  });
  afterAll(() => place.close());

  describe("any sequence of commands and observations", () => {
    const step = fc.record({
      op: fc.constantFrom(
        ...([
          "create",
          "create",
          "hand",
          "hand",
          "handoff",
          "acknowledge",
          "acknowledge",
          "cancel_handoff",
        ] as const),
        ...(["take", "release", "finalize", "validate", "validate", "offer", "offer", "reject"] as const),
        ...(["escalate", "lapse", "wait", "sweep", "complete", "fork"] as const),
      ),
      agent: fc.constantFrom("a", "b"),
      isFenced: fc.boolean(),
      isRight: fc.boolean(),
    });
    type Step = { op: string; agent: string; isFenced: boolean; isRight: boolean };

    /** The tasks that began as forks of the task under test. */
    const forks: string[] = [];

    async function run(task: string, { op, agent, isFenced, isRight }: Step): Promise<unknown> {
      const known = await place.head(task);
      const by = { task, agent, ...(isFenced && { fence: known.fence }) };
      const last = await place.repository.handoff("default", { task_id: task }).catch(() => null);
      const id = last?.handoff_id ?? uuidv7();
      const { repository } = place;
      const command = (name: CommandOp, body: AuditRecord = {}) => send(repository, name, body, by);
      switch (op) {
        case "create":
          return create(repository, by);
        case "hand":
          return create(repository, { ...by, checkpoint: handoffInput() });
        case "acknowledge":
          return (
            last && acknowledge(repository, last, { agent, body: { agent_type: isRight ? "qa" : "other" } })
          );
        case "complete": {
          const { checkpoint_id } = await create(repository, {
            ...by,
            checkpoint: input({ phase: "complete" }),
          });
          return finalize(repository, checkpoint_id, "succeeded", by);
        }
        case "finalize":
          return isRight && finalize(repository, known.latest_id ?? uuidv7(), "failed", by);
        case "release":
          return command("release", { fence: known.fence });
        case "validate":
          return repository.handoffActions.validateHandoff("default", id, { toAgentType: "qa" });
        case "offer":
          return last && repository.handoffActions.offerHandoff("default", id, offering(last));
        case "reject":
          return repository.handoffActions.rejectHandoff("default", id, { reason: "hash_broken" });
        case "escalate":
          if (isRight && last?.state === "offered")
            place.now = Math.max(place.now, Date.parse(last.deadline ?? ""));
          return repository.handoffActions.escalateHandoff("default", id, {
            attempt: last?.attempt ?? 0,
            reason: "no_agent",
          });
        case "lapse":
          return repository.handoffActions.lapseHandoff("default", id);
        case "sweep":
          return place.sweepAllDrafts();
        case "fork": {
          const fork = place.fresh();
          await send(repository, "fork", { source_task_id: task }, { task: fork, agent });
          forks.push(fork);
          return;
        }
        case "wait":
          place.now += isRight ? 1_000 : 900_001;
          return;
        default:
          return command(op as CommandOp);
      }
    }

    /** Checks the invariants after a step; returns the fence, which must not fall. */
    async function requireSound(task: string): Promise<number> {
      const { owner, fence, handoff_id, state, audit_seq, audit_hash } = await place.head(task);
      const { handoffs } = await place.repository.handoffs("default", { task_id: task, limit: 100 });
      const open = handoffs.filter((one) => isOpenHandoff(one.state));
      expect(open.map((one) => one.handoff_id)).toEqual(handoff_id === null ? [] : [handoff_id]);
      const ids = new Set(handoffs.map((one) => one.handoff_id));
      const dueNow = (await place.due()).filter(({ id }) => ids.has(id));
      expect(dueNow).toMatchObject(
        open.map((one) => ({ id: one.handoff_id, dueMs: Date.parse(one.due_at ?? "") })),
      );
      const [one] = open;
      if (one?.state === "offered") expect(one.fence_to_be).toBe(fence + 1);
      if (one?.state === "accepted") {
        expect(one.fence).toBe(fence);
        expect([one.accepted_by, null]).toContain(owner);
      } else {
        expect(state === "handing_off").toBe(one !== undefined && state !== "blocked");
      }
      const { entries } = await place.repository.audit("default", { task_id: task, from_seq: 1, limit: 500 });
      const verifier = createChainVerifier();
      for (const record of entries) verifier.add(record);
      expect(verifier.finish({ seq: audit_seq, hash: audit_hash }).problems).toEqual([]);
      return fence;
    }

    /** Folding the audit trail yields the head. */

    async function requireReplay(task: string): Promise<void> {
      const { stored, replayed } = await place.replayed(task);

      expect(replayed).toEqual(stored);
    }

    async function requireStory(task: string): Promise<void> {
      const entries = await place.trail(task);
      const events = (await place.outbox(task)).flatMap((entry) => (isOffer(entry) ? [] : [entry.event]));
      expect(events.map((event) => (event as { sequence: number }).sequence)).toEqual(
        entries.map(({ seq }) => seq),
      );
      const { audit_hash } = await place.head(task);
      const hashes = [...entries.slice(1).map(({ prev }) => prev), audit_hash];
      expect(events.map((event) => (event as { audithash?: string }).audithash)).toEqual(hashes);
      const states = new Map<string, string>();
      let [fence, owner]: [number, unknown] = [0, null];
      for (const { op, handoff_id, handoff_from, handoff_to, ...entry } of entries as Record<
        string,
        string
      >[]) {
        if (handoff_to !== undefined) {
          expect(states.get(handoff_id!) ?? null).toBe(handoff_from);
          const ways =
            handoff_from === null
              ? ["requested"]
              : Object.values(HANDOFF_TABLE[handoff_from as HandoffState]);
          expect(ways).toContain(handoff_to);
          states.set(handoff_id!, handoff_to);
        }
        if (op === "take" || op === "acknowledge") fence += 1;
        if (op === "take" || op === "acknowledge" || op === "release") owner = entry.owner_to;
        expect(entry.fence).toBe(fence);
      }
      expect(await place.head(task)).toMatchObject({ fence, owner });
      const offers = (await place.outbox(task)).filter(isOffer).map(({ event }) => event.id);
      expect(offers).toEqual([...new Set(offers)]);
      expect(offers).toHaveLength(entries.filter(({ op }) => op === "offer").length);
    }

    test("keeps one open handoff, one due entry, one owner, a rising fence and a chain that verifies", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 24 }), async (steps) => {
          const task = place.fresh();
          await create(place.repository, { task });
          let fence = 0;
          for (const one of steps) {
            await run(task, one).catch((error: unknown) => {
              expect(error).toBeInstanceOf(FleetError);
              expect(["INVALID", "CONFLICT", "FENCED", "NOT_FOUND", "FINALIZED"]).toContain(
                (error as FleetError).code,
              );
            });
            const after = await requireSound(task);
            expect([fence, fence + 1]).toContain(after);
            fence = after;
          }
          for (const one of [task, ...forks.splice(0)]) {
            await requireSound(one);
            await requireStory(one);
            await requireReplay(one);
          }
        }),
        { numRuns: engine === "memory" ? 60 : 15 },
      );
    }, 60_000);
  });
});
