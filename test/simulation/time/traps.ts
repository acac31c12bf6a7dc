/**
 * A simulation must not use the real machine: its answers come at real times, so the same seed would not give the same history. Each such call
 * ends the simulation with an error that names it. Synchronous reads of files are permitted, because a module may read its own data.
 */
import childProcess from "node:child_process";
import crypto from "node:crypto";
import dgram from "node:dgram";
import dns from "node:dns";
import fs from "node:fs";
import { registerHooks, syncBuiltinESMExports } from "node:module";
import net from "node:net";
import workers from "node:worker_threads";
import zlib from "node:zlib";
import { type ActiveSimulation, activeSimulation } from "./run.ts";

function forbidden(simulation: ActiveSimulation, call: string): Error {
  const error = new Error(`${call} was called within a simulation`);
  simulation.fail(error);
  return error;
}

/** `permits`: calls with these arguments do not leave the simulation. */
function forbid(
  owner: object,
  name: string,
  call: string,
  permits: (args: readonly unknown[]) => boolean = () => false,
): void {
  const real = Reflect.get(owner, name) as unknown;
  if (typeof real !== "function") return;
  const check = (args: readonly unknown[]): void => {
    const simulation = activeSimulation();
    if (simulation !== undefined && !permits(args)) throw forbidden(simulation, call);
  };
  const trapped = new Proxy(real, {
    apply(target, self, args) {
      check(args);
      return Reflect.apply(target, self, args) as unknown;
    },
    construct(target, args, newTarget) {
      check(args);
      return Reflect.construct(target, args, newTarget) as object;
    },
  });
  Object.defineProperty(owner, name, { value: trapped, configurable: true, writable: true });
}

const PERMITTED_FILE_CALLS: ReadonlySet<string> = new Set([
  "readFileSync",
  "existsSync",
  "statSync",
  "lstatSync",
  "accessSync",
  "readdirSync",
  "realpathSync",
]);

const isClass = (name: string): boolean => /^[A-Z_]/.test(name);

function forbidFiles(): void {
  for (const name of Object.keys(fs))
    if (!PERMITTED_FILE_CALLS.has(name) && !isClass(name)) forbid(fs, name, `fs.${name}`);
  for (const name of Object.keys(fs.promises)) forbid(fs.promises, name, `fs.promises.${name}`);
}

const hasCallback = (args: readonly unknown[]): boolean => typeof args.at(-1) === "function";

/** Replaced by the globals. */
const SEEDED_KEYS = "generateKeyPairSync ed25519";

function forbidThreads(): void {
  forbid(workers, "Worker", "new Worker");
  for (const name of ["spawn", "spawnSync", "fork", "exec", "execFile", "execSync", "execFileSync"])
    forbid(childProcess, name, `child_process.${name}`);
  for (const [name, value] of Object.entries(zlib))
    if (typeof value === "function" && !name.endsWith("Sync") && !isClass(name))
      forbid(zlib, name, `zlib.${name}`, (args) => !hasCallback(args));
  // Keys are made from the machine's own entropy.
  for (const name of ["generateKeyPair", "generateKeyPairSync", "generateKey", "generateKeySync"])
    forbid(crypto, name, `crypto.${name}`, (args) => `${name} ${args[0]}` === SEEDED_KEYS);
  for (const name of ["pbkdf2", "scrypt", "hkdf", "randomFill", "randomBytes"])
    forbid(crypto, name, `crypto.${name} with a callback`, (args) => !hasCallback(args));
  for (const name of Object.getOwnPropertyNames(Object.getPrototypeOf(crypto.webcrypto.subtle)))
    if (name !== "constructor") forbid(crypto.webcrypto.subtle, name, `crypto.subtle.${name}`);
}

function forbidSockets(): void {
  forbid(net.Socket.prototype, "connect", "net.Socket.connect");
  forbid(net.Server.prototype, "listen", "net.Server.listen");
  forbid(dgram, "createSocket", "dgram.createSocket");
  for (const name of ["lookup", "resolve", "resolve4", "resolve6"]) forbid(dns, name, `dns.${name}`);
  forbid(globalThis, "fetch", "fetch");
}

/** A module that is loaded within a simulation would arrive at a real time. */
function forbidLoading(): void {
  registerHooks({
    load(url, context, nextLoad) {
      const simulation = activeSimulation();
      if (simulation !== undefined) throw forbidden(simulation, `import of ${url}`);
      return nextLoad(url, context);
    },
  });
}

/** Once in a process, before {@link replaceGlobals} or after it. */
export function setTraps(): void {
  forbidFiles();
  forbidThreads();
  forbidSockets();
  forbidLoading();
  syncBuiltinESMExports();
}
