// The handler of `synthetic`, as far as one process of Node goes: it can't hold up or end a process of its own.
import { setTimeout as sleep } from "node:timers/promises";
import { HandlerFailure } from "./held_lease.mjs";

const DEFAULTS = {
  items: 1, duration_seconds: 0, work: "sleeping", report_progress: true, fail_attempts: [],
  fail_code: "PROVIDER_UNAVAILABLE", fail_after_items: 0, exit_attempts: [], ignore_cancel: false, output_bytes: 0,
  pieces: 0, piece_characters: 20, ledger: "", note: "",
};
const UNABLE = ["work", "ignore_cancel", "ledger"];

export async function synthetic(attempt, given) {
  const order = checked(given);
  const number = attempt.lease.attempt;
  const failIfDue = (done) => {
    if (order.fail_attempts.includes(number) && done >= order.fail_after_items) {
      throw new HandlerFailure(order.fail_code, "this attempt was ordered to fail");
    }
  };
  for (let done = 0; done < order.items; done += 1) {
    failIfDue(done);
    await pause((1000 * order.duration_seconds) / order.items, attempt.signal);
    if (order.report_progress) {
      attempt.tellProgress((done + 1) / order.items, `${done + 1} of ${order.items} items`);
    }
  }
  for (let done = 0; done < order.pieces; done += 1) {
    failIfDue(done);
    await attempt.emit(`${done + 1} `.padEnd(order.piece_characters, ".").slice(0, order.piece_characters));
  }
  failIfDue(Infinity);
  return { items: order.items, attempt: number, padding: "x".repeat(order.output_bytes) };
}

async function pause(milliseconds, signal) {
  signal.throwIfAborted();
  if (milliseconds > 0) {
    await sleep(milliseconds, undefined, { signal });
  }
}

function checked(given) {
  if (given === null || typeof given !== "object" || Array.isArray(given)) {
    throw new HandlerFailure("INPUT_INVALID", "the input is no object");
  }
  for (const [name, value] of Object.entries(given)) {
    if (!(name in DEFAULTS) || typeof value !== typeof DEFAULTS[name]) {
      throw new HandlerFailure("INPUT_INVALID", `${name}: unknown, or of another type`);
    }
    if (UNABLE.includes(name) && value !== DEFAULTS[name]) {
      throw new HandlerFailure("INPUT_UNSUPPORTED", `${name}: this executor can't do that`);
    }
  }
  return { ...DEFAULTS, ...given };
}
