/** The checks of offers and acceptances: offers are numbered and open until their deadline, and one agent accepts in time by its own command. */
import type { Command, Violation } from "../evidence.ts";
import { type HandoffHistory, handoffReporter, timeOf } from "./handoff-history.ts";

/** Checks that offers are numbered from 1, and that none is made while the previous one is open. */
export function checkOffers(history: HandoffHistory): Violation[] {
  const found: Violation[] = [];
  const report = handoffReporter(found, history);
  const offers = history.moves.filter(({ op }) => op === "offer");
  for (const [i, offer] of offers.entries()) {
    const before = offers[i - 1];
    const isEarly = before !== undefined && timeOf(offer) < Date.parse(before.deadline!);
    if (offer.attempt === i + 1 && !isEarly) continue;
    const { seq, attempt } = offer;
    report(
      "handoff_unjustified",
      "an offer has a wrong number, or was made while the previous one was open",
      {
        seq,
        attempt,
      },
    );
  }
  return found;
}

/** Checks that at most one agent accepts, the latest offer, before the deadline and by its own command. */
export function checkAcceptance(
  history: HandoffHistory,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const found: Violation[] = [];
  const report = handoffReporter(found, history);
  const acceptances = history.moves.filter(({ op }) => op === "acknowledge");
  if (acceptances.length > 1) {
    const agents = acceptances.map(({ owner_to }) => owner_to);
    report("handoff_taken_twice", "a handoff was accepted more than once", { agents });
  }
  for (const acceptance of acceptances) {
    const { seq, command_id } = acceptance;
    const offer = history.moves.findLast((move) => move.op === "offer" && move.seq < seq);
    const isInTime = offer !== undefined && timeOf(acceptance) <= Date.parse(offer.deadline!);
    const command = commands.get(command_id ?? "")?.attempts[0];
    const isLatest = offer?.offer_digest === acceptance.offer_digest;
    if (isInTime && isLatest && command?.op === "acknowledge" && command.handoff === history.id) continue;
    report("handoff_unjustified", "a handoff was accepted too late, by another offer, or without a command", {
      seq,
      command_id,
      deadline: offer?.deadline ?? null,
      at: acceptance.at,
    });
  }
  return found;
}
