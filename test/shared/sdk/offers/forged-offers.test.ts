/** Offers that the fleet did not make: no handler is given the task for one of them, and the real offer can still be accepted. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FleetError } from "../../../../shared/protocol/errors.ts";
import type { Offer, OfferData } from "../../../../shared/protocol/offer.ts";
import { STREAMS } from "../../../../shared/protocol/subjects.ts";
import { EVIL, FORGERIES, forged, intercepted, publishOffer } from "../../../harness/forged-offers.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";
import { offer, offeredTask } from "../../../harness/records/handoffs.ts";

let fleet: InProcessFleet;

beforeAll(async () => {
  fleet = await openInProcessFleet();
});
afterAll(() => fleet?.close());

/** What a client made of the offers of a type, until the stream of offers is empty. */
interface Outcome {
  readonly prompts: string[];
  readonly accepted: string[];
  readonly refused: FleetError[];
  readonly voids: [OfferData, FleetError][];
}

async function outcomeOf(agentType: string): Promise<Outcome> {
  const client = await fleet.client(`taker-${agentType}`);
  const outcome: Outcome = { prompts: [], accepted: [], refused: [], voids: [] };
  const stop = await client.onOffer(
    agentType,
    async (one) => {
      outcome.prompts.push(one.data.prompt);
      await one.acknowledge();
      outcome.accepted.push(one.data.prompt);
    },
    {
      onRefused: (why) => void outcome.refused.push(why),
      onVoid: (data, why) => void outcome.voids.push([data, why]),
    },
  );
  const left = async () => (await fleet.bus.stream(STREAMS.offers).state()).messages;
  await expect.poll(left, { timeout: 20_000 }).toBe(0);
  await stop();
  return outcome;
}

async function real(name: string): Promise<Offer> {
  await offeredTask(fleet.records, `task-${name}`, name);
  return intercepted(fleet, name);
}

const name = (words: string) => words.replaceAll(" ", "-");

test.each(FORGERIES)("with another %s, it never reaches the handler", async (what, forge) => {
  const type = `edited-${name(what)}`;
  const one = await real(type);
  await publishOffer(fleet, type, forged(one, forge(one.data), false));
  await publishOffer(fleet, type, one);
  const { prompts, accepted, refused, voids } = await outcomeOf(type);
  expect(prompts).toEqual([one.data.prompt]);
  expect(accepted).toEqual([one.data.prompt]);
  expect(voids).toEqual([]);
  expect(refused).toMatchObject([{ code: "INVALID", fields: [{ path: "data.digest" }] }]);
});

test.each(FORGERIES.filter(([what]) => what !== "agent type"))(
  "with another %s and the digest of that, it makes no agent the owner",
  async (what, forge) => {
    const type = `resealed-${name(what)}`;
    const one = await real(type);
    await publishOffer(fleet, type, forged(one, forge(one.data), true));
    await publishOffer(fleet, type, one);
    const { accepted, refused, voids } = await outcomeOf(type);
    expect(accepted).toEqual([one.data.prompt]);
    expect(refused).toEqual([]);
    expect(voids).toMatchObject([
      [{ prompt: EVIL }, { code: "CONFLICT", fields: [{ path: "offer_digest" }] }],
    ]);
  },
);

test("for another agent type or tenant than that of its subject, it never reaches the handler", async () => {
  const type = "subject";
  const one = await real(type);
  for (const changes of [{ agent_type: "forged" }, { tenant: "acme" }]) {
    await publishOffer(fleet, type, forged(one, changes, true));
  }
  await publishOffer(fleet, type, one);
  const { accepted, refused } = await outcomeOf(type);
  expect(accepted).toEqual([one.data.prompt]);
  expect(refused.flatMap(({ fields }) => fields.map(({ path }) => path))).toEqual([
    "data.agent_type",
    "data.tenant",
  ]);
});

test("with ids that no handoff can have, it is removed from the stream", async () => {
  const type = "malformed";
  const one = await real(type);
  for (const changes of [{ handoff_id: "x" }, { task_id: "a.b" }, { task_id: "" }]) {
    await publishOffer(fleet, type, forged(one, changes, true));
  }
  const { accepted, voids } = await outcomeOf(type);
  expect(accepted).toEqual([]);
  expect(voids.map(([, { code }]) => code)).toEqual(["INVALID", "INVALID", "INVALID"]);
});

test("an earlier offer of a handoff is void once it is offered again", async () => {
  const type = "earlier";
  const id = await offeredTask(fleet.records, "task-earlier", type, { deadlineMs: 200 });
  const first = await intercepted(fleet, type);
  await expect.poll(() => Date.now()).toBeGreaterThan(Date.parse(first.data.deadline));
  await offer(fleet.records.repository, id, { toAgentType: type, attempt: 2 });
  const second = await intercepted(fleet, type);
  await publishOffer(fleet, type, first);
  await publishOffer(fleet, type, second);
  const { voids } = await outcomeOf(type);
  expect(voids).toMatchObject([
    [{ attempt: 1 }, { code: "CONFLICT", details: { attempt: 2, offer_digest: second.data.digest } }],
  ]);
  const handoff = await fleet.records.repository.handoff("default", { handoff_id: id });
  expect(handoff).toMatchObject({ state: "accepted", offer_digest: second.data.digest });
});
