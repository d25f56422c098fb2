// A way from the views on a page to the kernel behind it: it shows nothing itself. Views find it in
// `globalThis.tfcourseChannels`, a set of functions: answer -> a promise of words for the learner.
export default {
  initialize({ model }) {
    const waiting = new Map(); // by the name of what was answered; a later answer takes its place
    const ask = (answer) => new Promise((done) => {
      waiting.set(answer.name, done);
      model.send(answer);
    });
    model.on("msg:custom", ({ name, said }) => waiting.get(name)?.(said));
    globalThis.tfcourseChannels ??= new Set();
    globalThis.tfcourseChannels.add(ask);
    return () => globalThis.tfcourseChannels.delete(ask);
  },
};
