/** From an offer to who took it: offers are counted and stand until their deadline, one agent accepts, in time, and because it asked. */
import type { Command, Violation } from "../evidence.ts";
import { type HandoffStory, sayingOf, timeOf } from "./handoff-history.ts";

/** Numbered from 1; none is made while the one before it stands. */
export function checkOffers(story: HandoffStory): Violation[] {
  const found: Violation[] = [];
  const say = sayingOf(found, story);
  const offers = story.moves.filter(({ op }) => op === "offer");
  for (const [i, offer] of offers.entries()) {
    const before = offers[i - 1];
    const isEarly = before !== undefined && timeOf(offer) < Date.parse(before.deadline!);
    if (offer.attempt === i + 1 && !isEarly) continue;
    const { seq, attempt } = offer;
    say("handoff_unjustified", "an offer is not the next one, or was made while the one before it stood", {
      seq,
      attempt,
    });
  }
  return found;
}

export function checkTaking(story: HandoffStory, commands: ReadonlyMap<string, Command>): Violation[] {
  const found: Violation[] = [];
  const say = sayingOf(found, story);
  const taking = story.moves.filter(({ op }) => op === "acknowledge");
  if (taking.length > 1) {
    const agents = taking.map(({ owner_to }) => owner_to);
    say("handoff_taken_twice", "a handoff was accepted more than once", { agents });
  }
  for (const taken of taking) {
    const { seq, command_id } = taken;
    const offer = story.moves.findLast((move) => move.op === "offer" && move.seq < seq);
    const isInTime = offer !== undefined && timeOf(taken) <= Date.parse(offer.deadline!);
    const asked = commands.get(command_id ?? "")?.attempts[0];
    if (isInTime && asked?.op === "acknowledge" && asked.handoff === story.id) continue;
    say("handoff_unjustified", "a handoff was accepted too late, or by nobody's asking", {
      seq,
      command_id,
      deadline: offer?.deadline ?? null,
      at: taken.at,
    });
  }
  return found;
}
