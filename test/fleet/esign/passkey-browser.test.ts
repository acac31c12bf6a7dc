/** A person signs with a passkey in a real browser with a virtual authenticator: enrolled, shown, verified, interrupted. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Browser, hasBrowser, openBrowser } from "../../harness/esign/browser.ts";
import { type EsignFleet, startEsignFleet } from "../../harness/esign/esign-fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import { ended, printed, startCli } from "../../services/cli/process.ts";

/** A busy machine takes seconds for each call, and a browser many to start. */
const CALLS_MS = 240_000;
const SIGN = "Sign with your passkey";
const CREATE = "Create the passkey";
let fleet: EsignFleet;
let browser: Browser;

beforeAll(async () => {
  if (!hasBrowser) return;
  fleet = await startEsignFleet();
  browser = await openBrowser();
}, CALLS_MS);
afterAll(async () => {
  await browser?.close();
  await fleet?.stop();
});

const env = (person: string) => ({
  ...{ FLEET_URL: fleet.server.url, FLEET_HOME: fleet.server.home, FLEET_PERSON: person },
  FLEET_SPOOL_DIR: join(fleet.server.home, "spool"),
});

/** `person` sits down at the browser. */
async function seat(person: string): Promise<void> {
  fleet.provider.seat.subject = person;
  await browser.logOut();
}

/** Runs a command of the person while `acts` happens at the page whose address it prints. */
async function signing(of: string, args: readonly string[], acts: () => Promise<void>) {
  let begin: (url: string) => void;
  const acted = new Promise<string>((resolve) => {
    begin = resolve;
  }).then(async (url) => {
    await browser.visit(url);
    await acts();
  });
  const onError = (text: string) => {
    const { url } = JSON.parse(text) as { url?: string };
    if (url !== undefined) begin(url);
  };
  const called = callCli(["sign", ...args, "--with", "passkey", "--timeout", "60s", "--json"], {
    env: env(of),
    onError,
  });
  const ended = called.then((result) => {
    if (result.exit !== 0) throw new Error(`${result.exit}: ${result.err}`);
  });
  await Promise.all([acted, ended]);
  return called;
}

async function json(of: string, ...args: string[]) {
  const { exit, out, err } = await callCli([...args, "--timeout", "60s", "--json"], { env: env(of) });
  expect({ exit, err }).toMatchObject({ exit: 0 });
  return JSON.parse(out);
}

async function enrolAndSign(): Promise<void> {
  await browser.press(CREATE);
  await browser.press(SIGN);
  await browser.shows("It is signed.");
}

test.skipIf(!hasBrowser)(
  "a person enrols a passkey with a login, signs, and signs again without one",
  { timeout: CALLS_MS },
  async () => {
    await seat("ada");
    const id = await fleet.written("auth");
    const args = ["auth", "--meaning", "approval", "--reason", "Checked </script><b>twice</b>"];
    const { seat: login } = fleet.provider;
    const first = await signing("ada", args, async () => {
      // A login before the person has read would be one of six minutes ago, which is refused.
      login.loggedInAt = -360;
      await browser.press(CREATE);
      await browser.shows("Ada Lovelace (ada of");
      // What is signed is text, and nothing is loaded from elsewhere.
      await browser.shows("Checked </script><b>twice</b>");
      expect(await browser.evaluate("document.querySelectorAll('b, img, link, iframe').length")).toBe(0);
      login.loggedInAt = 0;
      await browser.press(SIGN);
      await browser.shows("It is signed.");
    });
    expect(first).toMatchObject({ exit: 0 });
    expect(JSON.parse(first.out)).toMatchObject({ checkpointId: id, version: 1 });
    const second = await signing("ada", ["auth", "--meaning", "responsibility"], async () => {
      await browser.press(SIGN);
      await browser.shows("It is signed.");
    });
    expect(second).toMatchObject({ exit: 0 });
    const block = { state: "valid", printed_name: "Ada Lovelace", method: "webauthn" };
    const { signatures } = await json("ada", "signatures", "auth");
    expect(signatures).toMatchObject([
      { ...block, meaning: "approval", reason: "Checked </script><b>twice</b>" },
      { ...block, meaning: "responsibility" },
    ]);
    expect((await callCli(["signatures", "auth"], { env: env("ada") })).out).toMatch(
      /Ada Lovelace \(ada of http\S+\), approval, .*\d{4}.*\), with a passkey, "Checked/,
    );
    const { signers } = await json("ada", "signers", "list");
    expect(signers).toMatchObject([{ subject: "ada", passkeys: [{ enrolled_by: "human=ada" }] }]);
    const bundle = join(fleet.folder, "auth.tar");
    await json("ada", "export", "--task", "auth", "--bundle", bundle);
    const report = await callCli(["export", "verify", bundle], { env: env("ada") });
    expect(report.out).toContain(", with a passkey");
    expect((await callCli(["scrub", "start", "--wait"], { env: env("ada") })).exit).toBe(0);
    expect(await json("ada", "audit", "verify", "auth")).toMatchObject({ ok: true });
  },
);

test.skipIf(!hasBrowser)(
  "an authenticator that does not verify the person signs nothing",
  { timeout: CALLS_MS },
  async () => {
    await seat("eve");
    await fleet.written("unverified");
    const signed = await signing("eve", ["unverified", "--meaning", "review"], async () => {
      await browser.press(CREATE);
      await browser.shows(SIGN);
      await browser.verifiesPerson(false);
      await browser.press(SIGN);
      await browser.shows("The passkey did not answer");
      expect(await fleet.writer.admin.esign.list("unverified")).toEqual([]);
      await browser.verifiesPerson(true);
      await browser.press(SIGN);
      await browser.shows("It is signed.");
    });
    expect(signed).toMatchObject({ exit: 0 });
  },
);

test.skipIf(!hasBrowser)(
  "a revoked passkey is not asked for, and another one is enrolled",
  { timeout: CALLS_MS },
  async () => {
    await seat("mary");
    await fleet.written("lost");
    const args = ["lost", "--meaning", "approval"];
    expect(await signing("mary", args, enrolAndSign)).toMatchObject({ exit: 0 });
    const passkeys = async () =>
      (await fleet.writer.admin.esign.signers()).signers
        .flatMap(({ passkeys: all = [] }) => all)
        .filter(({ enrolled_by }) => enrolled_by === "human=mary");
    const [lost] = await passkeys();
    await json("mary", "signers", "revoke-passkey", lost!.passkey_id, "--reason", "lost");
    const again = await signing("mary", ["lost", "--meaning", "review"], enrolAndSign);
    expect(again).toMatchObject({ exit: 0 });
    expect(await passkeys()).toMatchObject([{ revoked_reason: "lost" }, { revoked_at: null }]);
    const signatures = await fleet.writer.admin.esign.list("lost", { content: true });
    expect(signatures.map(({ state }) => state)).toEqual(["valid", "valid"]);
  },
);

test.skipIf(!hasBrowser)(
  "after kill -9 between the answer of the passkey and the commit, the person signs again",
  { timeout: CALLS_MS },
  async () => {
    await seat("lin");
    await fleet.written("killed");
    const args = ["sign", "killed", "--meaning", "approval", "--with", "passkey", "--timeout", "60s"];
    const child = startCli(args, { env: env("lin") });
    const [url = ""] = await printed(child, /http:\S+/);
    await browser.visit(url);
    await browser.press(CREATE);
    await browser.shows(SIGN);
    const held = browser.holdAnswer();
    await browser.press(SIGN);
    const letGo = await held;
    child.kill("SIGKILL");
    await ended(child);
    await letGo();
    await browser.shows("The program that asked you to sign has ended.");
    expect(await fleet.writer.admin.esign.list("killed")).toEqual([]);
    const again = await signing("lin", ["killed", "--meaning", "approval"], enrolAndSign);
    expect(again).toMatchObject({ exit: 0 });
    expect(await fleet.writer.admin.esign.list("killed", { content: true })).toMatchObject([
      { state: "valid", method: "webauthn" },
    ]);
    const { signers } = await fleet.writer.admin.esign.signers();
    const enrolled = signers
      .flatMap(({ passkeys = [] }) => passkeys)
      .filter(({ enrolled_by }) => enrolled_by === "human=lin");
    expect(enrolled).toHaveLength(1);
  },
);
