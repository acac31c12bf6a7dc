/**
 * The first step of docker-compose.yml: makes the keys of the fleet, the credentials of each service and the certificates, each in the folder
 * that only its container mounts. A repetition keeps the keys and the credentials, and brings rights and certificates up to date.
 */
import { parseArgs } from "node:util";
import { writeAccess } from "./access.ts";

const USAGE = `usage: node deploy/compose/init.ts --store TEXT --bus URLS --api URL --names NAMES [--to DIR]

  --store TEXT   the content of FoundationDB's cluster file
  --bus URLS     the addresses of the bus for programs of the host, with commas
  --api URL      the address of the HTTP API for programs of the host
  --names NAMES  the names of the servers in their network, with commas; the certificate covers them, and those of the addresses
  --to DIR       the folder with one folder for each container; default: /access

The keys stay in FLEET_HOME. For example, from the folder of the project:
  FLEET_HOME=./keys node deploy/compose/init.ts --store fleet:fleet@localhost:4500 --bus tls://localhost:4222 \\
    --api https://localhost:4284 --names nats-0 --to ./access
`;

function usageError(problem: string): never {
  process.stderr.write(`${problem}\n\n${USAGE}`);
  process.exit(64);
}

const options = {
  store: { type: "string" },
  bus: { type: "string" },
  api: { type: "string" },
  names: { type: "string" },
  to: { type: "string", default: "/access" },
  help: { type: "boolean", short: "h" },
} as const;

function read() {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    return usageError((error as Error).message);
  }
}

const { help, store, bus, api, names, to } = read();
if (help === true) {
  process.stdout.write(USAGE);
  process.exit(0);
}
if (store === undefined || bus === undefined || api === undefined || names === undefined)
  usageError("--store, --bus, --api and --names are needed");
const list = (text: string): string[] => text.split(",").filter((part) => part !== "");
const wrong = [...list(bus), api].find((url) => !URL.canParse(url));
if (wrong !== undefined) usageError(`${wrong} is not a URL`);
const home = process.env.FLEET_HOME;
if (home === undefined || home === "") usageError("FLEET_HOME names no folder for the keys");

const access = { home, to, store, busUrls: list(bus), apiUrl: api, names: list(names), now: new Date() };
const { folders, isNewCertificate } = await writeAccess(access);
process.stdout.write(`${JSON.stringify({ msg: "the access of the containers is ready", folders })}\n`);
if (isNewCertificate)
  process.stdout.write(
    `${JSON.stringify({ msg: "the certificate is new; servers that run must start again" })}\n`,
  );
