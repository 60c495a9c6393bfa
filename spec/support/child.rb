# frozen_string_literal: true

require "memprofiler"
require "rbconfig"
require "tmpdir"

# Ruby code in a process of its own: for what may crash the VM, and for what must begin without
# a collector, a thread or a Ractor before it.
module Child
  Result = Struct.new(:value, :out, :err, keyword_init: true)

  class Died < StandardError; end

  # What Memprofiler was loaded from here: the Ruby files, and the extension built for this Ruby.
  LOAD_PATH = $LOADED_FEATURES.filter_map do |feature|
    case feature
    when %r{\A(.*)/memprofiler/version\.rb\z}, %r{\A(.*)/memprofiler/memprofiler\.(?:so|bundle)\z} then $1
    end
  end.uniq.freeze

  # The program's last value is the answer; what it prints is its own.
  FRAME = <<~RUBY
    require "memprofiler"
    value = eval(File.read("code"), TOPLEVEL_BINDING, "program.rb") # no such file: a real one would be named by its path
    File.binwrite("answer", Marshal.dump(value))
  RUBY

  # A child that hangs must not hang the specs; a slow one has all the time it needs.
  PATIENCE = 300 # seconds

  module_function

  # @param code [String] its value must be one that Marshal can dump
  # @param options [Array<String>] for the interpreter
  # @return [Result]
  # @raise [Died] with the beginning of its error output, when it did not get to its end
  def ruby(code, options: [], env: {})
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "code"), code)
      status = run(dir, options, env)
      out, err = %w[out err].map { |name| File.read(File.join(dir, name), encoding: "UTF-8") }
      answer = File.join(dir, "answer")
      raise Died, report(status, err) unless status.success? && File.exist?(answer)

      return Result.new(value: Marshal.load(File.binread(answer)), out: out, err: err)
    end
  end

  # The answer alone.
  def value(...)
    ruby(...).value
  end

  def run(dir, options, env)
    command = [RbConfig.ruby, "--disable-gems", *LOAD_PATH.flat_map { |folder| ["-I", folder] }, *options, "-e", FRAME]
    pid = spawn({ "RUBYOPT" => nil, **env }, *command,
                chdir: dir, in: File::NULL, out: File.join(dir, "out"), err: File.join(dir, "err"))
    waiter = Process.detach(pid)
    unless waiter.join(PATIENCE)
      Process.kill(:KILL, pid)
      waiter.join
    end
    waiter.value
  end
  private_class_method :run

  def report(status, err)
    lines = err.lines
    lines = lines.first(40) + ["...\n"] if lines.size > 40
    "the child ended with #{status.inspect}:\n#{lines.join}"
  end
  private_class_method :report
end
