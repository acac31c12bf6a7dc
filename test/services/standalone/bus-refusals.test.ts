/** The lines of nats-server (2.15) about refusals: the credentials that they name, with any text in the client's own name, user and subject. */
import { expect, test } from "vitest";
import { refusalIn } from "../../../services/standalone/refusals/bus-refusals.ts";

const OWN = `U${"A".repeat(55)}`;
const VICTIM = `U${"B".repeat(55)}`;
const label = (nkey: string) => `"A${"C".repeat(55)}/FLEET/nkey:${nkey}"`;
/** As the server quotes a name. */
const escaped = (text: string) => text.replaceAll('"', '\\"');
const line = (name: string, end: string) =>
  `127.0.0.1:49770 - cid:133 - "v3.4.0:nats.js${name}" - ${label(OWN)} - ${end}`;
const PUBLISH = 'Publish Violation - Subject "fleet.cmd.other.mallory.t.create"';
const own = { reason: "permission", address: "127.0.0.1", credential: `nkey ${OWN}` };

test.each([
  ["a refused publication", PUBLISH, "bus.publish"],
  ["a refused reply", 'Publish Violation - Reply "$SYS.x"', "bus.publish"],
  ["a refused subscription", 'Subscription Violation - Subject "fleet.>", SID 4', "bus.subscribe"],
  ["one of a queue", 'Subscription Violation - Subject "a", Queue: "b", SID 4', "bus.subscribe"],
])("%s is reported for the credentials of the connection", (_, end, op) => {
  expect(refusalIn(line("", end))).toEqual({ op, ...own });
  expect(refusalIn(`[::1]:4 - cid:5 - ${label(OWN)} - ${end}`)).toEqual({ op, ...own, address: "::1" });
});

test.each([
  ["has the key of another holder", `:x nkey:${VICTIM} x`, PUBLISH],
  ["has the end of a line, quoted by the server", `:x\\" - ${escaped(label(VICTIM))} - ${PUBLISH}`, PUBLISH],
  // The name `a%[1]s - …%[1]s` and the subject `"`.
  [
    "brings in quotes from the subject",
    `:a" - ${label(VICTIM)} - Publish Violation - `,
    'Publish Violation - Subject "\\""',
  ],
  ["looks like an authentication error", ":x - authentication error - ", PUBLISH],
])("a name that %s blames no other", (_, name, end) => {
  expect(refusalIn(line(name, end))).toEqual({ op: "bus.publish", ...own });
});

test.each(["", ' - User "a"', ` - User "x - Publish Violation - nkey:${VICTIM}"`])(
  "a connection without valid credentials has none: authentication error%s",
  (user) => {
    expect(refusalIn(`10.0.0.7:4 - cid:5 - authentication error${user}`)).toEqual({
      ...{ op: "bus.connect", reason: "credentials", address: "10.0.0.7", credential: "none" },
    });
  },
);

test.each([
  line(": - authentication error", "maximum payload exceeded: 2 vs 1"),
  "Server is ready",
  "JetStream cluster - Publish Violation - x",
])("another line is no refusal: %s", (other) => {
  expect(refusalIn(other)).toBeUndefined();
});
