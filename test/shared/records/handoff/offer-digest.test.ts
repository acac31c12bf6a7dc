/** The digest of an offer: in the message, in the record of the handoff and in the audit trail. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { offerDigest } from "../../../../shared/integrity/offer-digest.ts";
import { type Offer, offerSchema } from "../../../../shared/protocol/offer.ts";
import { isOffer } from "../../../../shared/records/outbox/outbox.ts";
import { acknowledge, offering } from "../../../harness/records/handoffs.ts";
import { ENGINES } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

describe.each(ENGINES)("the digest of an offer on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  async function messages(task: string): Promise<Offer[]> {
    const entries = await place.outbox(task);
    return entries.filter(isOffer).map(({ json }) => offerSchema.parse(JSON.parse(json)) as Offer);
  }

  const audited = async (task: string, op: string) =>
    (await place.trail(task)).filter((entry) => entry.op === op).map(({ offer_digest }) => offer_digest);

  test("is that of the message, and stands in the record and in the trail until the handoff has ended", async () => {
    const { task, id, offer } = await place.offered();
    place.now += 60_000;
    await place.repository.handoffActions.offerHandoff("default", id, offering(offer));
    const [first, second] = (await messages(task)).map(({ data }) => data);
    for (const data of [first, second]) expect(offerDigest(data!)).toBe(data!.digest);
    expect(offer.offer_digest).toBe(first!.digest);
    const again = await place.handoff(id);
    expect(again.offer_digest).toBe(second!.digest);
    expect(second!.digest).not.toBe(first!.digest);
    await acknowledge(place.repository, again, { agent: "taker" });
    expect((await place.handoff(id)).offer_digest).toBe(second!.digest);
    expect(await audited(task, "offer")).toEqual([first!.digest, second!.digest]);
    expect(await audited(task, "acknowledge")).toEqual([second!.digest]);
  });

  test("differs after a change of any member, and is the same in any order of the members", async () => {
    const { task } = await place.offered();
    const [message] = await messages(task);
    const { data } = message!;
    for (const name of Object.keys(data)) {
      if (name === "digest") continue;
      expect(offerDigest({ ...data, [name]: "changed" }), name).not.toBe(data.digest);
    }
    expect(offerDigest({ ...data, further: null })).not.toBe(data.digest);
    expect(offerDigest(Object.fromEntries(Object.entries(data).reverse()))).toBe(data.digest);
  });
});
